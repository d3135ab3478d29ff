// SPDX-License-Identifier: Apache-2.0
// Steps that copy a value to the file of the rank, or back into memory.
#include <cstring>

#include "executable/host_file.h"
#include "executable/plan.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

// A value in the file: kNoBuffer if it is in memory.
struct InFile {
  BufferId buffer = kNoBuffer;
  std::int64_t bytes = 0;
};

InFile in_file(const Schedule& schedule, BufferId buffer) {
  if (buffer == kNoBuffer || at(schedule.buffers, buffer).place != Place::kFile) return {};
  return {buffer, at(schedule.buffers, buffer).bytes};
}

// The value that the first step from `first` on reads from the file.
InFile next_read(const Schedule& schedule, const Computation& computation, std::size_t first) {
  for (std::size_t t = first; t < schedule.steps.size(); ++t) {
    const Instruction& instruction = computation[schedule.steps[t].instructions.front()];
    if (instruction.op->file_transfer == FileTransfer::kRead)
      return in_file(schedule, at(schedule.access, instruction.operands[0]).front().buffer);
  }
  return {};
}

class FileStep final : public PlanStep {
 public:
  FileStep(const Schedule& schedule, const Computation& computation, const Step& step)
      : from_(operand_buffers(schedule, computation[step.instructions.front()]).front()),
        to_(result_buffers(schedule, step.instructions.front()).front()),
        bytes_(static_cast<std::size_t>(computation[step.instructions.front()].type.byte_size())),
        read_(in_file(schedule, from_)),
        written_(in_file(schedule, to_)) {
    const auto t = static_cast<std::size_t>(&step - schedule.steps.data());
    if (read_.buffer != kNoBuffer) next_ = next_read(schedule, computation, t + 1);
  }

  void run(const Frame& frame) const override {
    const HostFile* file = frame.state.file;
    if (next_.buffer != kNoBuffer) file->prefetch(frame[next_.buffer], next_.bytes);
    if (bytes_ > 0) std::memcpy(frame[to_], frame[from_], bytes_);
    if (read_.buffer != kNoBuffer) file->end_read(frame[read_.buffer], read_.bytes);
    if (written_.buffer == kNoBuffer) return;
    file->end_write(frame[written_.buffer], written_.bytes);
    metrics().count("OffloadedBytes", written_.bytes);
  }

 private:
  BufferId from_;
  BufferId to_;
  std::size_t bytes_;
  InFile read_;
  InFile written_;
  InFile next_;  // read by a later step
};

}  // namespace

std::unique_ptr<PlanStep> make_file_step(const CompileContext& context, const Schedule& schedule, const Step& step) {
  return std::make_unique<FileStep>(schedule, context.program[schedule.computation], step);
}

}  // namespace tessera
