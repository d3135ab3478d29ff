// SPDX-License-Identifier: Apache-2.0
// Bounds for the effect of rounding on a result, by the types in which it is computed.
#pragma once

#include "tessera/ir/program.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// Relative bound for results of a program in its own types: a few hundred roundings of the narrowest type, even if
/// results are converted to a wider type at the end.
double relative_bound_of(const Program& program);
/// For two programs in double precision: far above the effect of rounding, even if a network amplifies it, and far
/// below any fault. Larger if they still round to a type of the module, or if the second has constants that were
/// computed in one.
double relative_bound_of_wide(const Program& program, const Program& partitioned);
/// The unit in the last place of the narrowest float type in the program, relative to the value; 0 if it has no floats.
/// Floats of 8 bits and fewer count only if there are no others.
double relative_epsilon_of(const Program& program);
/// Whether the bound is larger than that of double precision alone.
bool rounds(double relative_bound_of_wide);
/// Relative bound for use together with a measured effect of rounding: 16-bit floats then need fewer roundings.
double relative_bound_with_noise(const Program& program);

/// The largest permitted difference from `given` due to another order of sums, if the same program in other types
/// (double precision) gives `exact`.
double absolute_bound_from(const Literal& given, const Literal& exact);

}  // namespace tessera
