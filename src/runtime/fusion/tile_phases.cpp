// SPDX-License-Identifier: Apache-2.0
// Phases of a tile program over long rows.
#include <algorithm>

#include "fusion/tile_program.h"

namespace tessera {
namespace {

class Phases {
 public:
  explicit Phases(TileProgram& program) : program_(program), of_slot_(program.slots.size(), 0) {
    for (std::size_t s = 0; s < program.slots.size(); ++s)
      if (program.slots[s].per_row) of_slot_[s] = -1;  // from outside: available before the first phase
  }

  void run() {
    while (settle()) {
    }
    for (const TileStep& step : program_.steps) program_.phases = std::max(program_.phases, step.phase + 1);
    mark_busy();
    for (const TileStep& step : program_.steps)
      for (int i = 0; i < step.in_count; ++i) {
        TileSlot& slot = at(program_.slots, step.in[i]);
        if (slot.register_index >= 0 && !slot.per_row && made_before(step.in[i], step.phase)) slot.is_full_row = true;
      }
  }

 private:
  void mark_busy() {
    program_.busy_phases = 0;
    for (TileLoad& load : program_.loads) load.phases = 0;
    for (const TileStep& step : program_.steps) {
      const std::uint64_t bit = step.phase < 64 ? std::uint64_t{1} << step.phase : 0;
      if (!step.per_row || step.kind == TileStep::Kind::kReduce) program_.busy_phases |= bit;
      for (TileLoad& load : program_.loads)
        if (std::find(step.in, step.in + step.in_count, load.slot) != step.in + step.in_count) load.phases |= bit;
    }
  }
  // A step runs once its operands are available, and once the data that it overwrites is no longer needed.
  bool settle() {
    bool changed = false;
    for (TileStep& step : program_.steps) {
      int phase = std::max(step.phase, 0);
      for (int i = 0; i < step.in_count; ++i) {
        const bool spreads = !step.per_row && at(program_.slots, step.in[i]).per_row;
        phase = std::max(phase, at(of_slot_, step.in[i]) + (spreads ? 1 : 0));
      }
      for (const int key : step.keys) phase = std::max(phase, at(of_slot_, key));
      phase = std::max(phase, last_reader(at(program_.slots, step.out), step));
      changed = changed || phase != step.phase || at(of_slot_, step.out) != phase;
      step.phase = at(of_slot_, step.out) = phase;
    }
    return changed;
  }
  // Returns the last phase that reads an input in the same buffer as this output.
  [[nodiscard]] int last_reader(const TileSlot& out, const TileStep& writer) const {
    if (out.output < 0 || out.output >= isize(program_.overwritten) || at(program_.overwritten, out.output) < 0)
      return 0;
    int last = 0;
    for (const TileStep& step : program_.steps)
      for (int i = 0; i < step.in_count && &step != &writer; ++i)
        if (at(program_.slots, step.in[i]).input == at(program_.overwritten, out.output))
          last = std::max(last, step.phase);
    return last;
  }
  [[nodiscard]] bool made_before(int slot, int phase) const {
    return std::any_of(program_.steps.begin(), program_.steps.end(),
                       [&](const TileStep& step) { return step.out == slot && step.phase < phase; });
  }

  TileProgram& program_;
  std::vector<int> of_slot_;  // the phase in which the slot becomes available; if per_row, at the end of the phase
};

}  // namespace

void assign_phases(TileProgram& program) { Phases(program).run(); }

}  // namespace tessera
