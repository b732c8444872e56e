# Standard errors of robustbase's and quantreg's fits, with all that is needed to compute them again.
#
#     Rscript benchmarks/r/standard_errors.R tests/estimators/inference/r_errors
#
# rows.csv: table, row, y, x1, x2, ... (columns of R's model matrix without the intercept).
# answers.csv: table, method, kind, index, value. Methods: MM (lmrob, its .vcov.avar1 as "avar1", its
# .vcov.w as "w"), rlm (MASS, bisquare at 4.685061), and rq at 0.25, 0.5, 0.9 with "iid", "nid" and "ker".
suppressMessages({library(robustbase); library(MASS); library(quantreg)})
folder <- commandArgs(trailingOnly = TRUE)[1]
dir.create(folder, showWarnings = FALSE, recursive = TRUE)
set.seed(7)
made <- function(n, k, noise) {
  x <- matrix(rnorm(n * k), n); y <- 1 + x %*% (1:k) / 2 + noise(n, x)
  data.frame(y = as.numeric(y), x)
}
tables <- list(
  gaussian = made(400, 3, function(n, x) rnorm(n)),
  t3 = made(400, 3, function(n, x) rt(n, 3)),
  wrong = made(300, 2, function(n, x) rnorm(n) + 40 * (seq_len(n) <= 30)),
  spread = made(500, 2, function(n, x) (0.5 + abs(x[, 1])) * rnorm(n)),
  stackloss = data.frame(y = stackloss$stack.loss, stackloss[, 1:3])
)
rows <- list(); answers <- list()
note <- function(table, method, kind, values)
  answers[[length(answers) + 1]] <<- data.frame(table, method, kind, index = seq_along(values) - 1, value = as.numeric(values))
for (name in names(tables)) {
  frame <- tables[[name]]; k <- ncol(frame) - 1
  names(frame) <- c("y", paste0("x", seq_len(k)))
  columns <- data.frame(table = name, row = seq_len(nrow(frame)) - 1, frame)
  for (j in seq_len(3)) if (j > k) columns[[paste0("x", j)]] <- NA
  rows[[name]] <- columns
  set.seed(1)
  fit <- lmrob(y ~ ., frame, control = lmrob.control(max.it = 500, rel.tol = 1e-12, refine.tol = 1e-12))
  note(name, "MM", "coef", coef(fit)); note(name, "MM", "scale", fit$scale)
  note(name, "MM", "avar1", sqrt(diag(vcov(fit))))
  note(name, "MM", "w", sqrt(diag(robustbase:::.vcov.w(fit))))
  huber <- rlm(y ~ ., frame, psi = psi.bisquare, c = 4.685061, init = coef(fit), maxit = 500, acc = 1e-10)
  note(name, "rlm", "coef", coef(huber)); note(name, "rlm", "scale", huber$s)
  note(name, "rlm", "H1", summary(huber)$coefficients[, 2])
  for (tau in c(0.25, 0.5, 0.9)) {
    line <- suppressWarnings(rq(y ~ ., tau, frame))
    note(name, paste0("rq", tau), "coef", coef(line))
    for (se in c("iid", "nid", "ker"))
      note(name, paste0("rq", tau), se, suppressWarnings(summary(line, se = se))$coefficients[, 2])
  }
}
write.csv(do.call(rbind, rows), file.path(folder, "rows.csv"), row.names = FALSE)
write.csv(do.call(rbind, answers), file.path(folder, "answers.csv"), row.names = FALSE)
