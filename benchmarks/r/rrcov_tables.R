# Robust principal components of rrcov and robustbase on their own tables and on planted ones.
#
#     Rscript benchmarks/r/rrcov_tables.R tests/estimators/low_rank/rrcov
#
# One CSV file a table, columns divided by their MAD; answers.csv holds one line a number: table,
# method, kind, i, j, value, where kind is "loading" (axis i, column j), "variance" (axis i) or "flag"
# (row i counted from 0 is an outlier). Planted tables are named after their share of wrong rows: rank 3
# in 10 columns, rows moved by 20 in one direction ("shifted") or by 20 N(0, 1) each cell ("scattered").

suppressMessages({library(robustbase); library(rrcov)})
folder <- commandArgs(trailingOnly = TRUE)[1]
dir.create(folder, showWarnings = FALSE, recursive = TRUE)

load_table <- function(name, package, columns) {
  data(list = name, package = package, envir = environment())
  table <- as.matrix(na.omit(get(name)[, columns]))
  sweep(table, 2, apply(table, 2, mad), "/")
}
plant <- function(share, kind) {
  set.seed(7)
  axes <- qr.Q(qr(matrix(rnorm(30), 10)))
  x <- matrix(rnorm(600), 200) %*% diag(c(5, 3, 2)) %*% t(axes) + 0.3 * matrix(rnorm(2000), 200)
  wrong <- seq_len(share * 200)
  if (length(wrong)) x[wrong, ] <- x[wrong, ] + 20 * if (kind == "shifted")
    rep(1, length(wrong)) %o% (c(1, -1) / sqrt(10))[rep(1:2, 5)] else matrix(rnorm(10 * length(wrong)), ncol = 10)
  x
}
tables <- list(
  hbk = list(load_table("hbk", "robustbase", 1:3), 2), bushfire = list(load_table("bushfire", "robustbase", 1:5), 2),
  milk = list(load_table("milk", "robustbase", 1:8), 3), wood = list(load_table("wood", "robustbase", 1:5), 2),
  rice = list(load_table("rice", "rrcov", 1:5), 2), pottery = list(load_table("pottery", "rrcov", 1:6), 2),
  diabetes = list(load_table("diabetes", "rrcov", 1:5), 2), fish = list(load_table("fish", "rrcov", 1:5), 2),
  octane = list(load_table("octane", "rrcov", 1:226), 2),
  planted00 = list(plant(0, "shifted"), 3), shifted10 = list(plant(0.1, "shifted"), 3), shifted30 = list(plant(0.3, "shifted"), 3),
  scattered10 = list(plant(0.1, "scattered"), 3), scattered30 = list(plant(0.3, "scattered"), 3)
)

answers <- list()
note <- function(...) answers[[length(answers) + 1]] <<- data.frame(...)
for (name in names(tables)) {
  x <- unname(tables[[name]][[1]]); k <- tables[[name]][[2]]
  if (any(!is.finite(x))) { message(name, " has cells that are not finite"); next }
  write.table(signif(x, 9), file.path(folder, paste0(name, ".csv")), sep = ",", row.names = FALSE, col.names = FALSE)
  fits <- list(
    classic = function() PcaClassic(x, k = k),
    PcaHubert = function() { set.seed(1); PcaHubert(x, k = k, mcd = FALSE) },
    PcaGrid = function() PcaGrid(x, k = k),
    covMcd = function() { if (nrow(x) < 5 * ncol(x)) stop("too few rows"); set.seed(1); covMcd(x) }
  )
  for (method in names(fits)) {
    fit <- tryCatch(suppressWarnings(fits[[method]]()), error = function(e) { message(name, " ", method, ": ", conditionMessage(e)); NULL })
    if (is.null(fit)) next
    if (method == "covMcd") {
      own <- eigen(fit$cov, symmetric = TRUE)
      loadings <- own$vectors[, 1:k]; variances <- own$values[1:k]; flags <- which(fit$mcd.wt == 0)
    } else {
      loadings <- getLoadings(fit); variances <- getEigenvalues(fit); flags <- which(!fit@flag)
    }
    for (i in seq_len(k)) {
      note(table = name, method = method, kind = "variance", i = i - 1, j = 0, value = signif(variances[i], 7))
      for (j in seq_len(ncol(x))) note(table = name, method = method, kind = "loading", i = i - 1, j = j - 1, value = signif(loadings[j, i], 7))
    }
    for (row in flags) note(table = name, method = method, kind = "flag", i = row - 1, j = 0, value = 1)
  }
}
write.csv(do.call(rbind, answers), file.path(folder, "answers.csv"), row.names = FALSE)
