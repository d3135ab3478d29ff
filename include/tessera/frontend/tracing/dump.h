// SPDX-License-Identifier: Apache-2.0
// The traced operations that lead to tensors, as text. Nothing runs, and the trace does not change, so a later step is
// the same with and without a dump. Equal programs have equal texts, also in different runs.
//
//   IR {                                                       dump_ir({y}) for y = x * 2.0
//     %0 = f32[3] xla::device_data(), device=xla:0, name=x
//     %1 = f32[] prim::Constant(), value=2
//     %2 = f32[3] xla::broadcast(%1), dimensions={}
//     %3 = f32[3] xla::multiply(%0, %2), ROOT=0
//   }
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// Returns the operations in the line format of PyTorch/XLA's IR, with the opcodes and attributes of HLO. `ROOT=k`
/// marks tensors[k]. Values in memory, and variables whose initial value was not needed yet, are `xla::device_data`.
/// Replicated shardings, source lines and the computations of loops and branches are not shown; dump_hlo() has them.
std::string dump_ir(const std::vector<Tensor>& tensors);
/// Returns the global program that computes the tensors, as HLO text that parse_program() reads.
std::string dump_hlo(const std::vector<Tensor>& tensors);
/// Returns the graph of dump_ir() for Graphviz (`dot -Tsvg`). Results have a double border. If an operation has several
/// operands, its edges have their numbers.
std::string dump_dot(const std::vector<Tensor>& tensors);

}  // namespace tessera
