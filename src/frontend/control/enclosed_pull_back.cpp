// SPDX-License-Identifier: Apache-2.0
// The backward pass is linear in the gradients of the outputs. It is emitted in the enclosing computation for
// placeholders of these gradients. Then the instructions that depend on the placeholders are copied into the current
// computation, where values of the enclosing one become captured values. The placeholders and the instructions that
// read them are not used further.
#include "control/enclosed_pull_back.h"

#include <algorithm>

#include "tessera/autodiff/gradients.h"
#include "tessera/ops/structural.h"

namespace tessera::control {
namespace {

// Copies instructions from `first` on that depend on the placeholders.
class LinearCopy {
 public:
  LinearCopy(Builder& from, Id first) : from_(from), first_(first), size_(from.computation().size()) {
    made_.resize(static_cast<std::size_t>(size_ - first));
    needed_.resize(made_.size(), false);
  }

  void replace(Value placeholder, Value value) { made(placeholder.id) = value; }

  std::vector<Value> run(const std::vector<Value>& wanted) {
    for (const Value& value : wanted)
      if (!value.is_null() && value.id >= first_) needed(value.id) = true;
    for (Id id = size_ - 1; id >= first_; --id)
      if (needed(id))
        for (const Id operand : from_[id].operands)
          if (operand >= first_) needed(operand) = true;
    for (Id id = first_; id < size_; ++id)
      if (needed(id) && made(id).is_null() && depends(id)) made(id) = copied(id);
    std::vector<Value> out;
    for (const Value& value : wanted) out.push_back(value.is_null() ? Value{} : here(value.id));
    return out;
  }

 private:
  [[nodiscard]] Value& made(Id id) { return at(made_, id - first_); }
  [[nodiscard]] std::vector<bool>::reference needed(Id id) { return needed_[static_cast<std::size_t>(id - first_)]; }
  [[nodiscard]] bool is_made(Id id) { return id >= first_ && !made(id).is_null(); }
  [[nodiscard]] bool depends(Id id) {
    const auto& operands = from_[id].operands;
    return std::any_of(operands.begin(), operands.end(), [&](Id operand) { return is_made(operand); });
  }
  [[nodiscard]] Value here(Id id) { return is_made(id) ? made(id) : trace().here(from_.value(id)); }
  [[nodiscard]] Value copied(Id id) {
    Instruction copy = from_[id];
    for (Id& operand : copy.operands) operand = here(operand).id;
    copy.control_predecessors.clear();
    return trace().builder().append(std::move(copy));
  }

  Builder& from_;
  Id first_;
  Id size_;
  std::vector<Value> made_;
  std::vector<bool> needed_;
};

}  // namespace

std::vector<Value> enclosed_pull_back(const std::vector<Value>& outputs, const std::vector<Value>& d_outputs,
                                      const std::vector<Value>& wrt) {
  if (outputs.empty()) return std::vector<Value>(wrt.size());
  Builder& home = *outputs.front().builder;
  const NotesRef before = std::exchange(home.default_notes, trace().builder().default_notes);
  const Id first = home.computation().size();
  std::vector<Value> placeholders;
  for (const Value& output : outputs) {
    const Type type = output.type();
    placeholders.push_back(ops::copy(ops::full(home, type, 0)));
  }
  const auto gradients = flowing_gradients(home, outputs, placeholders, wrt);
  home.default_notes = before;
  LinearCopy copy(home, first);
  for (std::size_t k = 0; k < placeholders.size(); ++k) copy.replace(placeholders[k], d_outputs[k]);
  return copy.run(gradients);
}

}  // namespace tessera::control
