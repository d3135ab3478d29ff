// SPDX-License-Identifier: Apache-2.0
// Constants whose elements a text leaves out, as the usual dumps of JAX and PyTorch/XLA do with all but small ones:
//
//   %table = f32[512,64] constant({...})
//
// Their values are not known: passes keep them as they are, and what computes refuses them or draws values.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/ir/program.h"
#include "tessera/tensor/literal.h"

namespace tessera {

bool has_elided_constants(const Computation& computation);
bool has_elided_constants(const Program& program);
/// In the computation, or in one that it calls.
bool has_elided_constants(const Program& program, ComputationId id);
/// `%table of %main`, in the order of the program.
std::vector<std::string> elided_constants(const Program& program);
/// The same for a message: the first few, and how many more there are.
std::string elided_constants_text(const Program& program);

/// Error that names them and says how to dump all elements, if there are any. `purpose`: "run".
void refuse_elided_constants(const Program& program, std::string_view purpose);

/// With `value` in the place of each elided array; called once per constant and leaf, and once per copy that a pass made of it, which has
/// the same origin.
Program with_elided_constants(const Program& program,
                              const std::function<Literal(const Type& type, const std::string& origin)>& value);

}  // namespace tessera
