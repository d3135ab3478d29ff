// SPDX-License-Identifier: Apache-2.0
// Constants whose elements the text omits. The usual dumps of JAX and PyTorch/XLA do this for all but small
// constants:
//
//   %table = f32[512,64] constant({...})
//
// Their values are unknown. Passes keep them unchanged. Code that needs the values throws an Error or draws random
// values.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/ir/program.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// True if an instruction of the computation, or of a computation of the program, is an elided constant.
bool has_elided_constants(const Computation& computation);
bool has_elided_constants(const Program& program);
/// True if the computation, or one that it calls, has such a constant.
bool has_elided_constants(const Program& program, ComputationId id);
/// `%table of %main`, in the order of the program.
std::vector<std::string> elided_constants(const Program& program);
/// The same as text for a message: the first few, and the number of the others.
std::string elided_constants_text(const Program& program);

/// If the program has such constants, throws an Error that names them and explains how to dump all elements. `purpose`
/// is a verb for the message, such as "run".
void refuse_elided_constants(const Program& program, std::string_view purpose);

/// Replaces each elided array by the result of `value`, which is called once for each constant and leaf, and once for
/// each copy that a pass made. Copies have the same origin.
Program with_elided_constants(const Program& program,
                              const std::function<Literal(const Type& type, const std::string& origin)>& value);

}  // namespace tessera
