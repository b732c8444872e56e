# Fits every regression table that robustbase ships, and writes the tables and R's answers as CSV.
#
#     Rscript benchmarks/r/robustbase_tables.R tests/estimators/regression/robustbase
#
# tables.csv holds one line a row: table, row, y, x1, x2, ... (the columns of R's model matrix without
# the intercept). answers.csv holds one line a number: table, method, kind, index, value, where kind is
# "coef" and "error" (index 0 is the intercept), "scale", or "flag" (rows counted from 0): weight below
# 0.1 / n for the MM fits, |residual| > 2.5 scales for LTS and as "flag2.5" for all of them.

suppressMessages({library(robustbase); library(MASS)})
folder <- commandArgs(trailingOnly = TRUE)[1]
dir.create(folder, showWarnings = FALSE, recursive = TRUE)

formulas <- list(
  aircraft = Y ~ ., airmay = Y ~ ., alcohol = logSolubility ~ ., Animals2 = log(brain) ~ log(body),
  biomassTill = Biomass ~ ., cloud = CloudPoint ~ Percentage, coleman = Y ~ ., condroz = pH ~ Ca,
  delivery = delTime ~ ., education = Y ~ X1 + X2 + X3, exAM = y ~ x, hbk = Y ~ ., heart = clength ~ .,
  kootenay = Newgate ~ Libby, lactic = Y ~ X, pension = log(Reserves) ~ log(Income), phosphor = plant ~ .,
  pilot = Y ~ X, pulpfiber = Y1 ~ X1 + X2 + X3 + X4, salinity = Y ~ ., SiegelsEx = y ~ x,
  starsCYG = log.light ~ log.Te, steamUse = Steam ~ op.days + temperature, telef = Calls ~ Year,
  toxicity = toxicity ~ ., wagnerGrowth = y ~ PA + GPA + HS + GHS, wood = y ~ ., stackloss = stack.loss ~ .,
  NOxEmissions = LNOx ~ LNOxEm + sqrtWS
)

rows <- list(); answers <- list()
note <- function(table, method, kind, index, value)
  answers[[length(answers) + 1]] <<- data.frame(table, method, kind, index, value)

for (name in names(formulas)) {
  if (name != "stackloss") data(list = name, package = "robustbase")
  frame <- as.data.frame(get(name))
  design <- tryCatch({
    model <- model.frame(formulas[[name]], frame)
    list(x = model.matrix(formulas[[name]], model)[, -1, drop = FALSE], y = model.response(model))
  }, error = function(e) { message(name, ": ", conditionMessage(e), " ", paste(names(frame), collapse = " ")); NULL })
  if (is.null(design)) next
  x <- unname(design$x); y <- as.numeric(design$y); n <- nrow(x)
  if (n <= 1000) {
    columns <- data.frame(table = name, row = seq_len(n) - 1, y = y)
    for (j in 1:12) columns[[paste0("x", j)]] <- if (j <= ncol(x)) x[, j] else NA
    rows[[name]] <- columns
  } else next
  fits <- list(
    MM = function() { set.seed(1); lmrob(y ~ x) },
    KS2014 = function() { set.seed(1); lmrob(y ~ x, setting = "KS2014") },
    LTS = function() { set.seed(1); ltsReg(x, y) },
    rlm = function() rlm(y ~ x, method = "MM", maxit = 200)
  )
  for (method in names(fits)) {
    fit <- tryCatch(suppressWarnings(fits[[method]]()), error = function(e) NULL)
    if (is.null(fit)) { message(name, " ", method, " failed"); next }
    values <- as.numeric(coef(fit))
    if (method == "LTS") { k <- length(values); if (names(coef(fit))[k] == "Intercept") values <- values[c(k, 1:(k - 1))] }
    for (j in seq_along(values)) note(name, method, "coef", j - 1, values[j])
    scale <- if (method == "rlm") fit$s else fit$scale
    note(name, method, "scale", 0, scale)
    errors <- tryCatch(suppressWarnings(summary(fit)$coefficients[, 2]), error = function(e) NULL)
    if (!is.null(errors) && length(errors) == length(values)) {
      if (method == "LTS" && rownames(summary(fit)$coefficients)[1] != "Intercept") errors <- errors[c(length(errors), 1:(length(errors) - 1))]
      for (j in seq_along(errors)) note(name, method, "error", j - 1, as.numeric(errors[j]))
    }
    residual <- as.numeric(y - cbind(1, x) %*% values)
    weights <- if (method == "LTS") fit$lts.wt else if (method == "rlm") fit$w else fit$rweights
    flagged <- if (method == "LTS") which(weights == 0) else which(weights < 0.1 / n)
    for (i in flagged) note(name, method, "flag", i - 1, 1)
    for (i in which(abs(residual) > 2.5 * scale)) note(name, method, "flag2.5", i - 1, 1)
  }
}
write.csv(do.call(rbind, rows), file.path(folder, "tables.csv"), row.names = FALSE, na = "")
write.csv(do.call(rbind, answers), file.path(folder, "answers.csv"), row.names = FALSE)
