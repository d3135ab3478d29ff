// SPDX-License-Identifier: Apache-2.0
// Rows of the state of a loop that are used in place. A loop over layers reads row i of stacks that it does not change
// (weights), and writes row i of others (residuals, gradients). A copy of each row would cost as much as many ops.
//
//   %w = dynamic-slice(%stack, %i, 0), …      the stack is passed on unchanged: %w has no memory, but is the row
//   %next = dynamic-update-slice(%stack, %y, %i, 0)      only this op reads the stack: %y is computed in the row
#pragma once

#include <functional>
#include <vector>

#include "flow.h"

namespace tessera::schedule {

struct Row {
  int slot = -1;            // the origin that is a row
  int stack = -1;           // the slot of the parameter
  int index = -1;           // the origin of the first row's number
  int step = -1;            // the step before which the address is computed
  Id access = -1;           // the dynamic-slice or dynamic-update-slice, which does nothing at run time
  std::int64_t stride = 0;  // bytes from row to row
  std::int64_t last = 0;    // the greatest number of a first row
};

/// The rows of a loop body. `step_of` is the step of each instruction in memory; `parameters` and `results` are the slots
/// of the leaves of the state before and after the body.
std::vector<Row> find_rows(const Flow& flow, const std::vector<int>& step_of, const std::vector<int>& parameters,
                           const std::vector<int>& results);

/// Values that only loops read, as initial values of stacks of which the loop writes every row before anything reads them:
/// the zeros with which such a stack begins need not be written.
std::vector<Id> unread_stacks(const Flow& flow);

}  // namespace tessera::schedule
