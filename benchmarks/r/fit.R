# Fits every table of a folder by several methods: Rscript fit.R FOLDER method,method,...
# FOLDER/*.csv have no header and the target in their last column. FOLDER/answers.txt gets one line a
# fit: table, method, CPU seconds, intercept, slopes (NA where the method fails).
suppressMessages({library(robustbase); library(MASS); library(quantreg)})
arguments <- commandArgs(trailingOnly = TRUE)
methods <- strsplit(arguments[2], ",")[[1]]
answers <- file(file.path(arguments[1], "answers.txt"), "w")
for (path in sort(list.files(arguments[1], pattern = "[.]csv$", full.names = TRUE))) {
  table <- as.matrix(read.csv(path, header = FALSE))
  x <- table[, -ncol(table), drop = FALSE]; y <- table[, ncol(table)]
  fits <- list(
    MM = function() coef(lmrob(y ~ x)),
    KS2014 = function() coef(lmrob(y ~ x, setting = "KS2014")),
    LTS = function() { v <- coef(ltsReg(x, y)); v[c(which(names(v) == "Intercept"), which(names(v) != "Intercept"))] },
    rlm = function() coef(rlm(y ~ x, maxit = 200)),
    quantile = function() coef(rq(y ~ x, method = if (nrow(x) > 2000) "fn" else "br"))
  )
  for (method in methods) {
    set.seed(1)
    before <- proc.time()[1]
    values <- tryCatch(suppressWarnings(as.numeric(fits[[method]]())), error = function(e) rep(NA, ncol(x) + 1))
    line <- c(sub("[.]csv$", "", basename(path)), method, proc.time()[1] - before, format(values, digits = 17))
    writeLines(gsub(" ", "", paste(line, collapse = ",")), answers)
  }
}
close(answers)
