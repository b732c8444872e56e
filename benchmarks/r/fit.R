# Fits one table by several methods: Rscript fit.R TABLE.csv ANSWERS.csv method,method,...
# The last column of TABLE is the target. ANSWERS has one line a method: method, CPU seconds, intercept, slopes.
suppressMessages({library(robustbase); library(MASS); library(quantreg)})
arguments <- commandArgs(trailingOnly = TRUE)
table <- as.matrix(read.csv(arguments[1], header = FALSE))
x <- table[, -ncol(table), drop = FALSE]; y <- table[, ncol(table)]
large <- nrow(x) > 2000
fits <- list(
  MM = function() coef(lmrob(y ~ x)),
  KS2014 = function() coef(lmrob(y ~ x, setting = "KS2014")),
  LTS = function() { v <- coef(ltsReg(x, y)); v[c(which(names(v) == "Intercept"), which(names(v) != "Intercept"))] },
  rlm = function() coef(rlm(y ~ x, maxit = 200)),
  quantile = function() coef(rq(y ~ x, method = if (large) "fn" else "br"))
)
out <- NULL
for (method in strsplit(arguments[3], ",")[[1]]) {
  set.seed(1)
  before <- proc.time()[1]
  values <- tryCatch(suppressWarnings(as.numeric(fits[[method]]())), error = function(e) rep(NA, ncol(x) + 1))
  out <- rbind(out, c(method, proc.time()[1] - before, values))
}
write.table(out, arguments[2], sep = ",", row.names = FALSE, col.names = FALSE, quote = FALSE)
