// SPDX-License-Identifier: Apache-2.0
#include "fusion/tile_program.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "fusion/accumulator.h"
#include "kernels/strided.h"

namespace tessera {
namespace {

// Writes elements [start, start + count) of an iota.
template <class T>
void fill_iota(const TileLoad& load, std::byte* to, std::int64_t start, std::int64_t count) {
  T* out = reinterpret_cast<T*>(to);
  if (load.inner == 1 && load.count_up != nullptr) {
    std::int64_t value = start % load.size;
    for (std::int64_t i = 0; i < count; value = 0) {
      const std::int64_t run = std::min(load.size - value, count - i);
      load.count_up(out + i, value, run);
      i += run;
    }
    return;
  }
  std::int64_t value = (start / load.inner) % load.size;
  std::int64_t left = load.inner - start % load.inner;  // remaining elements with this value
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t run = std::min(left, count - i);
    if constexpr (is_float(kDTypeOf<T>)) {
      const T element = static_cast<T>(static_cast<double>(value));
      std::fill_n(out + i, run, element);
    } else {
      std::fill_n(out + i, run, static_cast<T>(value));
    }
    i += run;
    left = load.inner;
    if (++value == load.size) value = 0;
  }
}

// Prefetches the elements that the next tile reads and writes, a part of them before every step, so that memory latency
// overlaps with computation. The hardware prefetcher does not predict short runs of many arrays.
class Ahead {
 public:
  explicit Ahead(std::vector<TileScratch::Stream>& streams) : streams_(streams) { streams_.clear(); }
  /// Adds an array of `count` elements of `bytes` bytes, which the tiles traverse.
  void add(const std::byte* start, std::int64_t bytes, std::int64_t count) {
    for (const TileScratch::Stream& one : streams_)
      if (one.start == start) return;
    streams_.push_back({start, bytes, bytes * count, 0, 0});
    total_ += bytes * count;
  }
  /// Sets the next elements to fetch, [first, first + count), in `parts` parts.
  void begin(std::int64_t first, std::int64_t count, std::size_t parts) {
    constexpr std::int64_t kLarge = 1 << 20;  // smaller data is in the second-level cache anyway
    if (total_ < kLarge) return;
    std::int64_t lines = 0;
    for (TileScratch::Stream& one : streams_) {
      one.next = std::min(first * one.element, one.end);
      one.until = std::min((first + count) * one.element, one.end);
      lines += ceil_div(one.until - one.next, kLine);
    }
    of_part_ = ceil_div(lines, static_cast<std::int64_t>(parts));
    now_ = 0;
  }
  void fetch_part() {
    for (std::int64_t left = of_part_; left > 0 && now_ < streams_.size();) {
      TileScratch::Stream& one = streams_[now_];
      for (; left > 0 && one.next < one.until; --left, one.next += kLine)
        __builtin_prefetch(one.start + one.next, 0, 2);
      if (one.next >= one.until) ++now_;
    }
  }

 private:
  static constexpr std::int64_t kLine = 64;
  std::vector<TileScratch::Stream>& streams_;
  std::int64_t total_ = 0;
  std::int64_t of_part_ = 0;
  std::size_t now_ = 0;
};

class Runner {
 public:
  Runner(const TileProgram& program, const KernelArgs& args, TileScratch& scratch)
      : program_(program),
        args_(args),
        starts_(scratch.starts),
        pointers_(scratch.pointers),
        steps_(scratch.steps),
        keys_(scratch.keys),
        totals_(scratch.totals),
        ahead_(scratch.streams) {
    pointers_.resize(program.slots.size());
    starts_.resize(program.slots.size());
    steps_.resize(program.slots.size());
    for (std::size_t s = 0; s < program.slots.size(); ++s) {
      const TileSlot& slot = program.slots[s];
      if (slot.input >= 0)
        starts_[s] = const_cast<std::byte*>(at(args.in, slot.input)) + slot.offset_bytes;  // NOLINT: read only
      else if (slot.output >= 0)
        starts_[s] = at(args.out, slot.output);
      else
        starts_[s] = args.workspace + at(program.register_offsets, slot.register_index);
      steps_[s] = slot.input >= 0 || slot.output >= 0 ? slot.element_bytes : 0;
      if (steps_[s] > 0 && !slot.per_row) ahead_.add(starts_[s], steps_[s], program.rows * program.columns);
    }
  }

  void run() {
    for (const TileLoad& load : program_.loads)
      if (load.is_splat)
        load.fill(at(starts_, load.slot), at(args_.in, load.input) + load.offset * load.element_bytes,
                  program_.piece > 0 ? (load.per_row ? 1 : program_.piece)
                                     : std::min(program_.tile, program_.rows) * width(load.per_row));
    if (program_.piece > 0) return run_long_rows();
    for (std::int64_t start = 0; start < program_.rows; start += program_.tile)
      run_tile(start, std::min(program_.tile, program_.rows - start));
  }

 private:
  [[nodiscard]] std::int64_t width(bool per_row) const { return per_row ? 1 : program_.columns; }

  void run_tile(std::int64_t start, std::int64_t rows) {
    for (std::size_t s = 0; s < starts_.size(); ++s)
      pointers_[s] = starts_[s] + start * width(program_.slots[s].per_row) * steps_[s];
    for (const TileLoad& load : program_.loads)
      if (!load.is_splat) fill(load, start * width(load.per_row), rows * width(load.per_row));
    ahead_.begin((start + rows) * program_.columns, rows * program_.columns, program_.steps.size());
    for (const TileStep& step : program_.steps) {
      ahead_.fetch_part();
      run_step(step, rows);
    }
  }

  // ---- long rows ----------------------------------------------------------------------------------------------------------------
  void run_long_rows() {
    totals_.resize(program_.steps.size());
    for (std::int64_t row = 0; row < program_.rows; ++row)
      for (int phase = 0; phase < program_.phases; ++phase) {
        for (std::size_t i = 0; i < program_.steps.size(); ++i)
          if (is_reduction_of(phase, program_.steps[i])) begin_total(i);
        // A phase with only per_row steps still needs pointers to one element.
        const std::int64_t columns = is_in(program_.busy_phases, phase) ? program_.columns : 1;
        for (std::int64_t start = 0; start < columns; start += program_.piece)
          run_piece(row, phase, start, std::min(program_.piece, columns - start));
        end_phase(phase);
      }
  }
  // Writes the totals and runs the per_row steps in the order of the steps: a result may overwrite an operand of an
  // earlier step.
  void end_phase(int phase) {
    for (std::size_t i = 0; i < program_.steps.size(); ++i) {
      const TileStep& step = program_.steps[i];
      if (is_reduction_of(phase, step))
        write_total(i);
      else if (step.per_row && step.phase == phase)
        run_step(step, 1);
    }
  }
  static bool is_reduction_of(int phase, const TileStep& step) {
    return step.kind == TileStep::Kind::kReduce && step.phase == phase;
  }
  static bool is_in(std::uint64_t phases, int phase) {
    constexpr int kBits = 64;
    return phase >= kBits || (phases >> phase & 1) != 0;
  }
  void run_piece(std::int64_t row, int phase, std::int64_t start, std::int64_t count) {
    for (std::size_t s = 0; s < starts_.size(); ++s) {
      const TileSlot& slot = program_.slots[s];
      const std::int64_t element = slot.per_row ? row : slot.is_full_row ? start : row * program_.columns + start;
      pointers_[s] = starts_[s] + element * (slot.is_full_row ? slot.element_bytes : steps_[s]);
    }
    for (const TileLoad& load : program_.loads)
      if (!load.is_splat && is_in(load.phases, phase))
        fill(load, load.per_row ? row : row * program_.columns + start, load.per_row ? 1 : count);
    for (std::size_t i = 0; i < program_.steps.size(); ++i) {
      const TileStep& step = program_.steps[i];
      if (step.phase != phase) continue;
      if (step.kind == TileStep::Kind::kReduce)
        step.reduce(at(pointers_, step.in[0]), count, totals_[i].bytes);
      else if (step.kind == TileStep::Kind::kSpread)
        step.spread(at(pointers_, step.out), at(pointers_, step.in[0]), count);
      else if (!step.per_row)
        run_on(step, count);
    }
  }
  void begin_total(std::size_t step) {
    with_total(step, [&]<class T, class A>(const TileStep& reduction, A& total) {
      total = static_cast<A>(*reinterpret_cast<const T*>(at(starts_, reduction.in[1])));
    });
  }
  void write_total(std::size_t step) {
    with_total(step, [&]<class T, class A>(const TileStep& reduction, A& total) {
      *reinterpret_cast<T*>(at(pointers_, reduction.out)) = static_cast<T>(total);
    });
  }
  // Calls f(step, accumulator) with the element type and the type of the accumulator.
  template <class F>
  void with_total(std::size_t number, F&& f) {
    const TileStep& step = program_.steps[number];
    visit_dtype(step.dtype, [&]<class T>() {
      if (step.is_extremum)
        f.template operator()<T>(step, *reinterpret_cast<Accumulator<T, true>*>(totals_[number].bytes));
      else
        f.template operator()<T>(step, *reinterpret_cast<Accumulator<T, false>*>(totals_[number].bytes));
    });
  }

  void run_step(const TileStep& step, std::int64_t rows) {
    if (step.kind == TileStep::Kind::kSpread) {
      std::byte* to = at(pointers_, step.out);
      const std::byte* from = at(pointers_, step.in[0]);
      for (std::int64_t r = 0; r < rows; ++r)
        step.spread(to + r * program_.columns * step.element_bytes, from + r * step.element_bytes, program_.columns);
    } else if (step.kind == TileStep::Kind::kReduce) {
      visit_dtype(step.dtype, [&]<class T>() {
        if (step.is_extremum)
          reduce<T, Accumulator<T, true>>(step, rows);
        else
          reduce<T, Accumulator<T, false>>(step, rows);
      });
    } else {
      run_on(step, rows * width(step.per_row));
    }
  }
  // Runs an elementwise step.
  void run_on(const TileStep& step, std::int64_t count) {
    switch (step.kind) {
      case TileStep::Kind::kFunction: {
        kernels::TileArgs tile{at(pointers_, step.out), {}, count};
        for (int i = 0; i < step.in_count; ++i) tile.in[i] = at(pointers_, step.in[i]);
        return step.function(tile);
      }
      case TileStep::Kind::kMove:
        std::memmove(at(pointers_, step.out), at(pointers_, step.in[0]),
                     static_cast<std::size_t>(count * step.element_bytes));
        return;
      case TileStep::Kind::kRounds: return run_rounds(step, count);
      case TileStep::Kind::kReference: return run_reference(step, count);
      default: break;
    }
  }

  template <class T, class A>
  void reduce(const TileStep& step, std::int64_t rows) {
    const T* in = reinterpret_cast<const T*>(at(pointers_, step.in[0]));
    T* out = reinterpret_cast<T*>(at(pointers_, step.out));
    const auto init = static_cast<A>(*reinterpret_cast<const T*>(at(pointers_, step.in[1])));
    for (std::int64_t r = 0; r < rows; ++r) {
      A total = init;
      step.reduce(in + r * program_.columns, program_.columns, &total);
      out[r] = static_cast<T>(total);
    }
  }

  void fill(const TileLoad& load, std::int64_t start, std::int64_t count) {
    std::byte*& to = at(pointers_, load.slot);
    if (load.input < 0) {
      visit_dtype(load.dtype, [&]<class T>() { fill_iota<T>(load, to, start, count); });
      return;
    }
    const std::byte* base = at(args_.in, load.input);
    const int last = isize(load.dims) - 1;
    constexpr int kMaxDims = 16;
    std::array<std::int64_t, kMaxDims> index{};
    std::int64_t rest = start;
    std::int64_t element = load.offset;
    for (int d = last; d >= 0; --d) {
      at(index, d) = rest % at(load.dims, d);
      rest /= at(load.dims, d);
      element += at(index, d) * at(load.strides, d);
    }
    const std::int64_t inner = at(load.dims, last);
    const std::int64_t stride = at(load.strides, last);
    if (stride == 1 && at(index, last) + count <= inner) {               // the tile is within one run: read it in place
      to = const_cast<std::byte*>(base) + element * load.element_bytes;  // NOLINT: read only
      return;
    }
    std::byte* out = to;
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t run = std::min(inner - at(index, last), count - done);
      copy_run(load, out, base + element * load.element_bytes, run, stride);
      out += run * load.element_bytes;
      done += run;
      at(index, last) += run;
      element += run * stride;
      for (int d = last; d >= 0 && at(index, d) == at(load.dims, d); --d) {
        element -= at(index, d) * at(load.strides, d);
        at(index, d) = 0;
        if (d == 0) break;
        ++at(index, d - 1);
        element += at(load.strides, d - 1);
      }
    }
  }
  static void copy_run(const TileLoad& load, std::byte* to, const std::byte* from, std::int64_t count,
                       std::int64_t stride) {
    if (stride == 1)
      std::memcpy(to, from, static_cast<std::size_t>(count * load.element_bytes));
    else if (stride == 0)
      load.fill(to, from, count);
    else
      StridedCopy(load.element_bytes, {count}, {stride}, {1}).run(from, to);
  }

  void run_rounds(const TileStep& step, std::int64_t count) {
    keys_.clear();
    for (const int slot : step.keys) keys_.push_back(*reinterpret_cast<const std::uint32_t*>(at(pointers_, slot)));
    step.rounds({reinterpret_cast<std::uint32_t*>(at(pointers_, step.out)),
                 reinterpret_cast<const std::uint32_t*>(at(pointers_, step.in[0])),
                 reinterpret_cast<const std::uint32_t*>(at(pointers_, step.in[1])), count, keys_.data(), isize(keys_),
                 step.multiplier});
  }

  void run_reference(const TileStep& step, std::int64_t count) {
    const OpView& row = *step.reference;
    OpView view{row.op, {}, row.result.with_dims({count}), row.attributes, row.called};
    std::vector<Literal> operands;
    for (int i = 0; i < step.in_count; ++i) {
      view.operands.push_back(at(row.operands, i).with_dims({count}));
      Literal literal(view.operands.back());
      std::memcpy(literal.mutable_bytes().data(), at(pointers_, step.in[i]), literal.bytes().size());
      operands.push_back(std::move(literal));
    }
    const Literal out = row.op.evaluate({view, operands, {}});
    std::memcpy(at(pointers_, step.out), out.bytes().data(), out.bytes().size());
  }

  const TileProgram& program_;
  const KernelArgs& args_;
  // References to the scratch memory.
  std::vector<std::byte*>& starts_;
  std::vector<std::byte*>& pointers_;
  std::vector<std::int64_t>& steps_;
  std::vector<std::uint32_t>& keys_;
  std::vector<TileScratch::Total>& totals_;
  Ahead ahead_;
};

}  // namespace

TileLoad load_of(const View& view, int input, std::int64_t element_bytes) {
  TileLoad load;
  load.input = input;
  load.element_bytes = element_bytes;
  load.offset = view.offset;
  load.fill = fill_function(element_bytes);
  for (std::size_t d = 0; d < view.dims.size(); ++d) {
    if (view.dims[d] == 1) continue;
    if (!load.dims.empty() && load.strides.back() == view.dims[d] * view.strides[d]) {
      load.dims.back() *= view.dims[d];
      load.strides.back() = view.strides[d];
    } else {
      load.dims.push_back(view.dims[d]);
      load.strides.push_back(view.strides[d]);
    }
  }
  if (load.dims.empty()) {
    load.dims = {1};
    load.strides = {0};
  }
  load.is_splat = std::all_of(load.strides.begin(), load.strides.end(), [](std::int64_t s) { return s == 0; });
  return load;
}

void TileProgram::run(const KernelArgs& args, TileScratch& scratch) const {
  if (rows > 0) Runner(*this, args, scratch).run();
}

}  // namespace tessera
