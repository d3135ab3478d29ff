// SPDX-License-Identifier: Apache-2.0
// How much roundings may do to a result, by the types it is computed in.
#pragma once

#include "tessera/ir/program.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// Relative bound for results of a program in its own types: a few hundred roundings of the narrowest (results are no better for being
/// widened at the end).
double relative_bound_of(const Program& program);
/// For two programs in double precision: far above what roundings do, also where a network amplifies them, and far below any fault;
/// larger where they still round to a type of the module, or where the second has constants that were computed in one.
double relative_bound_of_wide(const Program& program, const Program& partitioned);
/// The unit in the last place of the narrowest float type in the program, relative to the value; 0 where there is none.
double relative_epsilon_of(const Program& program);
/// Whether such a bound is larger than that of double precision alone.
bool rounds(double relative_bound_of_wide);
/// Where it is known what roundings did, 16-bit floats need not be given a few hundred of them.
double relative_bound_beside_noise(const Program& program);

/// How far another order of sums may be from `given` where the same program in other types (double precision) gives `exact`.
double absolute_bound_from(const Literal& given, const Literal& exact);

}  // namespace tessera
