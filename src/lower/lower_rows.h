// Stages that share independent rows: a softmax, a norm. One work item does all stages of a row, what lies between them stays in
// its cache.
//
//   row r:       m = max(k) x[r, k];    s = sum(k) (e[k] = exp(x[r, k] - m));    y[r, k] = e[k] / s
//
// Where results go past the caches, a work item takes some rows and writes one while it makes the next, so that memory has
// something to do all the time. An element is read right before the next row's is written in its place: both rows take no
// more of the L1 cache than one.
//
//   row r + 1:   m' = max(k) x[r + 1, k];    for k { y[r, k] = e[k] / s;    s' += (e[k] = exp(x[r + 1, k] - m')) }
//
// Where the last stage reads what is the same for all rows, and more than the L1 cache has room for beside a row (the
// weights of a norm), some rows are written together: it comes once for all of them.
//
//   rows r, r + 1:   m, s = …;   m', s' = …;   for k { y[r, k] = (x[r, k] - m) * s * w[k];   y[r + 1, k] = … }
#pragma once

#include "lower/lowering.h"

namespace xyntra {

// The stages [first, last) as work items that share rows; undefined where they share none. Temporaries that are not placed yet
// live inside one work item.
kir::Stmt lower_row_items(Lowering& lowering, std::size_t first, std::size_t last, bool keep_order);

}  // namespace xyntra
