// SPDX-License-Identifier: Apache-2.0
// Common code of the steps of collective instructions.
#pragma once

#include <algorithm>
#include <cstring>

#include "executable/plan.h"
#include "kernels/strided.h"

namespace tessera {

// Converts between arrays [outer, parts, inner bytes] and [parts, outer, inner bytes].
struct PartLayout {
  std::int64_t outer = 1;
  std::int64_t part_bytes = 0;  // of one part of one outer row

  PartLayout(const Type& full, std::int64_t dim, std::int64_t parts) {
    for (std::int64_t d = 0; d < dim; ++d) outer *= at(full.dims(), d);
    part_bytes = outer == 0 ? 0 : full.byte_size() / outer / parts;
  }
  [[nodiscard]] bool is_contiguous() const { return outer <= 1; }
  // `stride` is the distance between parts; 0: the parts are contiguous.
  void pack(const std::byte* full, std::byte* packed, std::int64_t parts, std::int64_t stride = 0) const {
    if (stride == 0) stride = outer * part_bytes;
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t p = 0; p < parts; ++p)
        std::memcpy(packed + p * stride + o * part_bytes, full + (o * parts + p) * part_bytes,
                    static_cast<std::size_t>(part_bytes));
  }
  void unpack(const std::byte* packed, std::byte* full, std::int64_t parts, std::int64_t stride = 0) const {
    if (stride == 0) stride = outer * part_bytes;
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t p = 0; p < parts; ++p)
        std::memcpy(full + (o * parts + p) * part_bytes, packed + p * stride + o * part_bytes,
                    static_cast<std::size_t>(part_bytes));
  }
};

inline std::span<const std::byte> bytes_of(const std::byte* data, std::int64_t bytes) {
  return {data, static_cast<std::size_t>(bytes)};
}
inline std::span<std::byte> bytes_of(std::byte* data, std::int64_t bytes) {
  return {data, static_cast<std::size_t>(bytes)};
}

inline TrafficCounters difference(const TrafficCounters& after, const TrafficCounters& before) {
  TrafficCounters out = after;
  out.all_gather -= before.all_gather;
  out.reduce_scatter -= before.reduce_scatter;
  out.all_reduce -= before.all_reduce;
  out.all_to_all -= before.all_to_all;
  out.permute -= before.permute;
  out.broadcast -= before.broadcast;
  out.mpi_payload -= before.mpi_payload;
  out.calls -= before.calls;
  return out;
}

// Common to all kinds of collectives: the group, the operands, the label and the counters.
class CollectiveStep : public PlanStep {
 public:
  CollectiveStep(CompileContext& context, const Schedule& schedule, const Step& step,
                 std::shared_ptr<ProcessGroup> owned, ProcessGroup& group, const std::string& axes)
      : owned_(std::move(owned)), group_(group) {
    const Computation& computation = context.program[schedule.computation];
    const Id id = step.instructions.front();
    const Instruction& instruction = computation[id];
    in_ = operand_buffers(schedule, instruction);
    out_ = result_buffers(schedule, id);
    scratch_ = step.scratch;
    for (const Id operand : instruction.operands) types_.push_back(computation[operand].type);
    results_ = instruction.type.leaves();
    if (group_.size() > 1) packed_ = packed_operands(view_of(context.program, computation, instruction));
    for (const std::size_t i : packed_) packed_bytes_ += types_[i].byte_size();
    metric_ = fmt::format("CollectiveTime::{}", instruction.op->name);
    label_ = {context.sequence++, fmt::format("{} %{} over {}", instruction.op->name, instruction.name, axes)};
  }
  [[nodiscard]] std::string_view communication() const final { return metric_; }
  PendingOperations start(const Frame& frame) const final {
    const TrafficCounters before = group_.traffic();
    PendingOperations operations;
    if (parts() > 1)
      begin(frame, operations);
    else
      exchange(frame);
    frame.state.traffic += difference(group_.traffic(), before);
    return operations;
  }
  void run(const Frame& frame) const final {
    const TrafficCounters before = group_.traffic();
    exchange(frame);
    frame.state.traffic += difference(group_.traffic(), before);
  }

 protected:
  virtual void exchange(const Frame& frame) const = 0;
  /// The same without waiting for completion, for operands whose parts are contiguous.
  virtual void begin(const Frame& frame, PendingOperations& /*operations*/) const { exchange(frame); }
  [[nodiscard]] std::int64_t parts() const { return group_.size(); }
  void copy_through(const Frame& frame, std::size_t i) const {  // for a group of one
    if (frame[out_[i]] != frame[in_[i]] && types_[i].byte_size() > 0)
      std::memcpy(frame[out_[i]], frame[in_[i]], static_cast<std::size_t>(types_[i].byte_size()));
  }

  /// Exchanges several small operands in one message: f(sent, received), with the given numbers of parts along `dim`
  /// for each operand.
  template <class F>
  void exchange_packed(const Frame& frame, std::int64_t dim, std::int64_t parts_sent, std::int64_t parts_received,
                       F&& f) const {
    send_packed(frame, dim, parts_sent, parts_received, f);
    receive_packed(frame, dim, parts_sent, parts_received);
  }
  template <class F>
  void send_packed(const Frame& frame, std::int64_t dim, std::int64_t parts_sent, std::int64_t parts_received,
                   F&& f) const {
    if (packed_.empty()) return;
    std::byte* sent = frame[scratch_];
    std::int64_t offset = 0;
    for (const std::size_t i : packed_) {
      const PartLayout layout(types_[i], parts_sent > 1 ? dim : 0, parts_sent);
      layout.pack(frame[in_[i]], sent + offset, parts_sent, packed_bytes_ / parts_sent);
      offset += types_[i].byte_size() / parts_sent;
    }
    f(bytes_of(static_cast<const std::byte*>(sent), packed_bytes_),
      bytes_of(received_packed(frame), packed_bytes_ / parts_sent * parts_received));
  }
  [[nodiscard]] std::byte* received_packed(const Frame& frame) const {
    return frame[scratch_] + ceil_div(packed_bytes_, kBufferAlignment) * kBufferAlignment;
  }
  void receive_packed(const Frame& frame, std::int64_t dim, std::int64_t parts_sent,
                      std::int64_t parts_received) const {
    if (packed_.empty()) return;
    const std::int64_t received_bytes = packed_bytes_ / parts_sent * parts_received;
    const std::byte* received = received_packed(frame);
    std::int64_t offset = 0;
    for (const std::size_t i : packed_) {
      const PartLayout layout(results_[i], parts_received > 1 ? dim : 0, parts_received);
      layout.unpack(received + offset, frame[out_[i]], parts_received, received_bytes / parts_received);
      offset += results_[i].byte_size() / parts_received;
    }
  }
  [[nodiscard]] bool is_packed(std::size_t i) const {
    return std::find(packed_.begin(), packed_.end(), i) != packed_.end();
  }

  /// Calls f(operand, its bytes) for each nonempty operand if the group has several members.
  template <class F>
  void for_each_operand(const Frame& frame, F&& f) const {
    for (std::size_t i = 0; i < in_.size(); ++i) {
      if (is_packed(i)) continue;
      const std::int64_t bytes = types_[i].byte_size();
      if (bytes > 0 && parts() > 1) f(i, bytes);
      if (bytes > 0 && parts() == 1) copy_through(frame, i);
    }
  }

  std::shared_ptr<ProcessGroup> owned_;
  ProcessGroup& group_;
  std::vector<BufferId> in_;
  std::vector<BufferId> out_;
  BufferId scratch_ = kNoBuffer;
  std::vector<Type> types_;  // of the operands
  std::vector<Type> results_;
  std::vector<std::size_t> packed_;  // operands that are sent in one message
  std::int64_t packed_bytes_ = 0;
  CollectiveLabel label_;
  std::string metric_;
};

std::unique_ptr<PlanStep> make_ragged_exchange_step(CompileContext& context, const Schedule& schedule, const Step& step,
                                                    std::shared_ptr<ProcessGroup> group, const std::string& axes);

}  // namespace tessera
