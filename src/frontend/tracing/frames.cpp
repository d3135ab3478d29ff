// SPDX-License-Identifier: Apache-2.0
// Values of enclosing computations in a function that is being traced.
#include "tessera/frontend/tracing/inner.h"
#include "tessera/ops/structural.h"
#include "tracing/error_context.h"

namespace tessera {
namespace {

// Scalar constants are copied, because rules about constants (trip counts) then see them.
bool is_scalar_constant(const Instruction& instruction) {
  return instruction.op->role == Role::kConstant && instruction.type.is_array() && instruction.type.ndim() == 0;
}

Value captured(Trace::Frame& frame, Value outer) {
  const auto [entry, fresh] = frame.inner_of.try_emplace(outer.id, -1);
  if (!fresh) return frame.builder.value(entry->second);
  const Instruction& instruction = outer.instruction();
  Value inner;
  if (is_scalar_constant(instruction)) {
    inner = frame.builder.append(instruction);
  } else {
    const auto number = static_cast<std::int64_t>(frame.builder.computation().parameters.size());
    inner = ops::parameter(frame.builder, number, instruction.type, instruction.name);
    frame.captured.push_back(outer);
  }
  entry->second = inner.id;
  return inner;
}

}  // namespace

Value Trace::here(Value value) {
  std::size_t depth = 0;
  if (value.builder != entry_.get()) {
    while (depth < frames_.size() && value.builder != &frames_[depth]->builder) ++depth;
    ensure(depth < frames_.size(), "a value of a function that is not being traced");
    ++depth;
  }
  for (; depth < frames_.size(); ++depth) value = captured(*frames_[depth], value);
  return value;
}

Value Trace::traced_value(const Node& node) const {
  if (node.id < 0 || node.epoch != epoch_) return {};
  if (node.frame == 0) return entry_->value(node.id);
  for (const auto& frame : frames_)
    if (frame->number == node.frame) return frame->builder.value(node.id);
  return {};
}

const Instruction* Trace::instruction_of(const Node& node) const {
  const Value value = traced_value(node);
  return value.is_null() ? nullptr : &value.instruction();
}

Id Trace::entry_id(const Node& node) const {
  if (node.id >= 0 && node.epoch == epoch_ && node.frame == 0) return node.id;
  const auto found = input_ids_.find(&node);
  return found == input_ids_.end() ? -1 : found->second;
}

void Trace::require_no_function(std::string_view what) const {
  require(
      frames_.empty(),
      "{} inside of a function of cond, a loop or a transform, which is only traced here: return the tensor from the "
      "function, and do this after the call",
      what);
}

void Trace::note_graph_break() const {
  if (capture_ != nullptr && capture_->may_break) throw GraphBreak("compile: the function needs a value on the host");
}

void Trace::note_read(const Tensor& tensor, const Node& node, const std::source_location& where) const {
  if (capture_ == nullptr) return;
  const bool is_data = node.has_data() || node.is_deferred();
  // require_no_function() has a better message for values that a function of cond or a loop computes.
  if (is_data ? !is_from_outside(node) && !node.refresh : in_function()) return;
  note_graph_break();
  in_context("", {}, where, [&] {
    require(is_data,
            "compile: the function reads a value that it computes; return the tensor and read it after the call");
    fail(
        "compile: the function reads the value of {}, which later calls would not read again; use cond() or where(), "
        "or pass a C++ number instead of the tensor (each number is another program). With full_graph = false, the "
        "function may read, but is not compiled",
        tensor.impl().argument ? "an argument " + what_is(tensor) : what_is(tensor));
  });
}

FunctionTrace::FunctionTrace(const std::string& name) : trace_(trace()) {
  frame_ = std::make_shared<Trace::Frame>(trace_.program(), name, trace_.next_frame());
  frame_->builder.default_notes = trace_.builder().default_notes;
  trace_.push_frame(frame_);
}

FunctionTrace::~FunctionTrace() {
  if (!is_closed_) trace_.pop_frame();
}

Value FunctionTrace::argument(const Type& type, const std::string& name) {
  ensure(frame_->captured.empty(), "an argument after captured values");
  ++argument_count_;
  return ops::parameter(frame_->builder, argument_count_ - 1, type, name);
}

void FunctionTrace::set_iteration(Value iteration) { frame_->iteration = iteration; }

void FunctionTrace::close(const std::vector<Value>& results) {
  for (const Value& result : results) ensure(result.builder == &frame_->builder, "a result of another computation");
  frame_->builder.default_notes = nullptr;
  root_ = ops::tuple(frame_->builder, results).id;
  is_closed_ = true;
  trace_.pop_frame();
}

Computation FunctionTrace::computation() const {
  const Computation& all = frame_->builder.computation();
  Computation out = all;
  out.instructions.resize(static_cast<std::size_t>(root_) + 1);  // without a gradient that follows
  std::erase_if(out.parameters, [&](Id id) { return id > root_; });
  out.root = root_;
  return out;
}

}  // namespace tessera
