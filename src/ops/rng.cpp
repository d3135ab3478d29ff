// SPDX-License-Identifier: Apache-2.0
// Random numbers: rng-bit-generator with XLA's bits, and the elementwise generator that models use (random_bits).
//
//   %r = (u64[2], u32[5,7]) rng-bit-generator(u64[2] %state), algorithm=rng_philox
//   %b = u32[5,7] rng-bit-generator(u64[2] %state), algorithm=rng_philox                only the bits
//
// state[0] is the key and does not change; the rest is a counter that advances by the number of blocks drawn.
#include <array>

#include "index_support.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {

namespace {
constexpr EnumWord<RngAlgorithm> kAlgorithms[] = {{RngAlgorithm::kDefault, "rng_default"},
                                                  {RngAlgorithm::kThreeFry, "rng_three_fry"},
                                                  {RngAlgorithm::kPhilox, "rng_philox"}};
using u32 = std::uint32_t;
using u64 = std::uint64_t;
}  // namespace

std::string field_text(RngAlgorithm value) { return enum_text(kAlgorithms, value); }
void parse_field(std::string_view text, RngAlgorithm& value) { value = enum_value(kAlgorithms, trim(text)); }

namespace rows {
namespace {

// ---- the generators, on one block ----------------------------------------------------------------------------------

using Pair = std::array<u32, 2>;
using Quad = std::array<u32, 4>;

Pair halves(u64 x) { return {static_cast<u32>(x), static_cast<u32>(x >> 32)}; }
u64 joined_halves(u32 low, u32 high) { return static_cast<u64>(high) << 32 | low; }

// Threefry 2x32 with 20 rounds (Salmon et al., SC 2011).
Pair threefry(Pair x, Pair key) {
  constexpr std::array<std::array<int, 4>, 2> kRotations = {{{13, 15, 26, 6}, {17, 29, 16, 24}}};
  const std::array<u32, 3> keys = {key[0], key[1], 0x1BD11BDAU ^ key[0] ^ key[1]};
  x[0] += keys[0];
  x[1] += keys[1];
  for (u32 group = 0; group < 5; ++group) {
    for (const int rotation : kRotations[group % 2]) {
      x[0] += x[1];
      x[1] = std::rotl(x[1], rotation) ^ x[0];
    }
    x[0] += keys[(group + 1) % 3];
    x[1] += keys[(group + 2) % 3] + group + 1;
  }
  return x;
}

// Philox 4x32 with 10 rounds (same paper).
Quad philox(Quad x, Pair key) {
  for (int round = 0; round < 10; ++round) {
    const Pair a = halves(u64{0xD2511F53U} * x[0]);
    const Pair b = halves(u64{0xCD9E8D57U} * x[2]);
    x = {b[1] ^ x[1] ^ key[0], b[0], a[1] ^ x[3] ^ key[1], a[0]};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return x;
}

// ---- XLA's order of blocks -----------------------------------------------------------------------------------------

struct Drawn {
  std::vector<u64> words;  // one per element, of its width or wider
  std::vector<u64> state;
};

// Blocks of 128 bits with consecutive 128-bit counters; elements take 32 or 64 bits in order.
Drawn draw_philox(const std::vector<u64>& state, std::int64_t count, bool is_wide) {
  const Pair key = halves(state[0]);
  // A state of two words has only the low word of the counter; the key replaces the high one.
  const u64 low = state[1];
  const u64 high = state.size() >= 3 ? state[2] : state[0];
  const std::int64_t blocks = ceil_div(is_wide ? 2 * count : count, 4);
  Drawn out;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const u64 counter = low + static_cast<u64>(i);
    const Pair a = halves(counter);
    const Pair b = halves(counter < low ? high + 1 : high);
    const Quad bits = philox({a[0], a[1], b[0], b[1]}, key);
    if (is_wide)
      out.words.insert(out.words.end(), {joined_halves(bits[0], bits[1]), joined_halves(bits[2], bits[3])});
    else
      out.words.insert(out.words.end(), bits.begin(), bits.end());
  }
  out.state = {state[0], low + static_cast<u64>(blocks)};
  if (state.size() >= 3) out.state.push_back(out.state[1] < low ? high + 1 : high);
  return out;
}

// 64 bits per counter. 32-bit elements divide one dim (the first even one, else the largest) into pairs from the same
// counter.
Drawn draw_threefry(const std::vector<u64>& state, const Dims& dims, bool is_wide) {
  const Pair key = halves(state[0]);
  const std::int64_t count = product(dims);
  Drawn out{std::vector<u64>(static_cast<std::size_t>(count)), {}};
  int split = -1;
  for (int d = 0; d < isize(dims) && split < 0; ++d)
    if (at(dims, d) % 2 == 0) split = d;
  if (split < 0)
    for (int d = 0; d < isize(dims); ++d)
      if (split < 0 || at(dims, d) > at(dims, split)) split = d;
  Dims halved = dims;
  if (!is_wide && split >= 0) at(halved, split) = ceil_div(at(halved, split), 2);
  const Dims strides = row_major_strides(halved);
  std::int64_t next = 0;
  for_each_index(dims, [&](const Dims& index) {
    std::int64_t position = 0;
    std::size_t half = 0;
    for (int d = 0; d < isize(index); ++d) {
      const bool is_split = !is_wide && d == split;
      position += (is_split ? at(index, d) / 2 : at(index, d)) * at(strides, d);
      if (is_split) half = static_cast<std::size_t>(at(index, d) % 2);
    }
    const Pair bits = threefry(halves(state[1] + static_cast<u64>(position)), key);
    at(out.words, next++) = is_wide ? joined_halves(bits[0], bits[1]) : bits[half];
  });
  out.state = {state[0], state[1] + static_cast<u64>(product(halved))};
  return out;
}

// ---- the row -------------------------------------------------------------------------------------------------------

// The result is (state, bits), or only the bits.
const Type& bits_of(const Type& result) { return result.is_tuple() ? result.elements()[1] : result; }

Type infer_rng(const OpView& view) {
  const Type& state = array_operand(view, 0);
  const RngAlgorithm algorithm = view.as<RngBitGeneratorAttributes>().algorithm;
  const bool fits = state.dtype() == DType::kU64 && state.ndim() == 1 &&
                    (state.dim(0) == 2 || (state.dim(0) == 3 && algorithm != RngAlgorithm::kThreeFry));
  require(fits, "the state must be u64[2]{}, got {}", algorithm == RngAlgorithm::kThreeFry ? "" : " or u64[3]", state);
  require(view.result.is_array() || (view.result.is_tuple() && view.result.elements().size() == 2),
          "the result type must be declared as (state, bits), or as that of the bits alone, got {}", view.result);
  require(
      view.result.is_array() || view.result.elements()[0] == state, "the new state is declared as {}, the state is {}",
      [&] { return view.result.elements()[0].str(); }, state);
  const Type& bits = bits_of(view.result);
  require(bits.is_array() && is_integer(bits.dtype()), "bits must be integers, got {}", bits);
  return view.result;
}

Literal evaluate_rng(const EvalContext& context) {
  const auto words = context.operands[0].data<u64>();
  const std::vector<u64> state(words.begin(), words.end());
  const Type& type = bits_of(context.view.result);
  const bool is_wide = dtype_size(type.dtype()) == 8;
  const Drawn drawn = context.view.as<RngBitGeneratorAttributes>().algorithm == RngAlgorithm::kThreeFry
                          ? draw_threefry(state, type.dims(), is_wide)
                          : draw_philox(state, type.element_count(), is_wide);
  Literal bits(type);
  visit_dtype(type.dtype(), [&]<class T>() {
    if constexpr (is_integer(kDTypeOf<T>)) {
      auto out = bits.mutable_data<T>();
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = static_cast<T>(drawn.words[i]);  // narrow types keep the low bits
    }
  });
  if (!context.view.result.is_tuple()) return bits;
  return Literal::tuple({Literal::from<u64>({isize(state)}, drawn.state), std::move(bits)});
}

FactorMap factors_rng(const OpView& view) {
  FactorMap map;
  map.operands = {add_factors(map, view.operands[0], FactorKind::kBlocked)};
  for (const Type& leaf : view.result.leaves()) map.results.push_back(add_factors(map, leaf, FactorKind::kBlocked));
  return map;
}

// The declared type is the global one, because nothing may be sharded.
Value localize_rng(LocalizeContext& context) {
  return context.builder.emit(context.view.op, context.operands, context.view.attributes,
                              {.type = context.view.result, .notes = context.notes});
}

}  // namespace

const OpDef kRngBitGenerator = {.name = "rng-bit-generator",
                                .min_operands = 1,
                                .max_operands = 1,
                                .parse = parse_attributes<RngBitGeneratorAttributes>,
                                .infer = infer_rng,
                                .type_inferable = false,
                                .evaluate = evaluate_rng,
                                .gradient_kind = GradientKind::kZero,
                                .factors = factors_rng,
                                .linearity = none,
                                .localize = localize_rng,
                                .flops = no_flops};

}  // namespace rows

// ---- the elementwise generator -------------------------------------------------------------------------------------

namespace ops {
namespace {

Value u32_scalar(Builder& builder, u32 value) { return constant(builder, Literal::scalar<u32>(value)); }

// Philox 2x32-10 on the counters (low, high) with a scalar key.
Value philox_rounds(Value low, Value high, Value round_key) {
  Builder& builder = *low.builder;
  const Dims dims = low.type().dims();
  const Value multiplier = splat(constant(builder, Literal::scalar<u64>(0xD256D193U)), dims);
  const Value half = splat(constant(builder, Literal::scalar<u64>(32)), dims);
  for (int round = 0; round < 10; ++round) {
    if (round > 0) round_key = add(round_key, u32_scalar(builder, 0x9E3779B9U));
    const Value wide = multiply(convert(low, DType::kU64), multiplier);
    const Value mixed = logical_xor(high, splat(round_key, dims));
    low = logical_xor(convert(shift_right_logical(wide, half), DType::kU32), mixed);
    high = convert(wide, DType::kU32);
  }
  return low;
}

}  // namespace

Value rng_bit_generator(Value state, Type type, RngAlgorithm algorithm) {
  return state.builder->emit(rows::kRngBitGenerator, {state}, make_attributes(RngBitGeneratorAttributes{algorithm}),
                             {.type = Type::tuple({state.type(), std::move(type)})});
}

Value random_bits(Value key, Dims dims, Value first_row) {  // NOLINT: a copy, types move as the builder grows
  require(key.type() == Type::array(DType::kU32, {2}), "random_bits: the key must be u32[2], got {}", key.type());
  Builder& builder = *key.builder;
  const auto key_word = [&](std::int64_t i) { return reshape(slice_dim(key, 0, i, i + 1), {}); };
  // The counter is (low index, second key word + high index), the key the first key word.
  Value low{};
  Value high = splat(key_word(1), dims);
  if (product(dims) <= (std::int64_t{1} << 32)) {
    low = rows::row_major_index(builder, dims, DType::kU32);
    if (!first_row.is_null()) {
      const auto row = static_cast<u32>(dims.empty() ? 1 : row_major_strides(dims).front());
      low = add(low, splat(multiply(first_row, u32_scalar(builder, row)), dims));
    }
  } else {
    require(first_row.is_null(), "random_bits: shards of arrays of more than 2^32 elements are not supported");
    const Value index = rows::row_major_index(builder, dims, DType::kU64);
    const Value shift = splat(constant(builder, Literal::scalar<u64>(32)), dims);
    low = convert(index, DType::kU32);
    high = add(high, convert(shift_right_logical(index, shift), DType::kU32));
  }
  return philox_rounds(low, high, key_word(0));
}

Value random_bits_at(Value key, Value index) {  // NOLINT: a copy, types move as the builder grows
  const Dims dims = index.type().dims();
  Builder& builder = *key.builder;
  const auto key_word = [&](std::int64_t i) { return reshape(slice_dim(key, 0, i, i + 1), {}); };
  const Value half = splat(constant(builder, Literal::scalar<u64>(32)), dims);
  const Value high = convert(shift_right_logical(index, half), DType::kU32);
  return philox_rounds(convert(index, DType::kU32), add(splat(key_word(1), dims), high), key_word(0));
}

// `dims` is a copy because types move as the builder grows.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
Value random_uniform(Value key, Dims dims, DType dtype, Value first_row) {
  require(is_float(dtype), "random_uniform: needs a float type, got {}", dtype_name(dtype));
  // The number of leading bits that the type holds exactly.
  const int kept = dtype == DType::kBF16 ? 8 : dtype == DType::kF16 ? 11 : dtype == DType::kF32 ? 24 : 32;
  Builder& builder = *key.builder;
  Value bits = random_bits(key, dims, first_row);
  if (kept < 32) bits = shift_right_logical(bits, splat(u32_scalar(builder, static_cast<u32>(32 - kept)), dims));
  const double unit = 1.0 / static_cast<double>(u64{1} << kept);
  return multiply(convert(bits, dtype), full(builder, Type::array(dtype, dims), unit));
}

}  // namespace ops
}  // namespace tessera
