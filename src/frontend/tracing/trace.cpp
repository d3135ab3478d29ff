// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tracing/inner.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "execution/execute.h"
#include "tessera/autodiff/gradients.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/timeline.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tracing/program_name.h"

namespace tessera {
namespace {

std::uint32_t low_word(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::uint32_t high_word(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }
// A shared value keeps the source location of its first use but belongs to no unit and no checkpoint region.
NotesRef place_only(const NotesRef& notes) {
  if (!notes || notes->frontend_attributes.empty()) return notes;
  return with_frontend_attribute(with_frontend_attribute(notes, "tessera.unit", std::nullopt), kCheckpointAttribute,
                                 std::nullopt);
}
Literal two_words(std::uint64_t x) { return Literal::from<std::uint32_t>({2}, {high_word(x), low_word(x)}); }

}  // namespace

Trace& detail::trace() { return RankContext::current().get<Trace>(); }

void manual_seed(std::uint64_t seed) { trace().set_seed(seed); }
RandomState random_state() { return trace().random_state(); }
void set_random_state(const RandomState& state) { trace().set_random_state(state); }

Trace::Trace() : is_eager_(options().flag("XLA_USE_EAGER_DEBUG_MODE")) { start(); }
Trace::~Trace() = default;

void Trace::start() {
  program_ = std::make_unique<ProgramBuilder>("step");
  entry_ = std::make_unique<Builder>(program_->computation("main"));
}

void Trace::set_seed(std::uint64_t seed) {
  seed_ = seed;
  step_ = 0;
  variables_ = 0;
  random_state_.reset();
}

void Trace::set_random_state(const RandomState& state) {
  seed_ = state.seed;
  step_ = state.step;
  random_state_.reset();
}

std::shared_ptr<Node> Trace::make_node(Type type, std::string name) {
  auto node = std::make_shared<Node>();
  node->type = std::move(type);
  node->name = std::move(name);
  node->order = ++orders_;
  return node;
}

std::shared_ptr<Node> Trace::copy_of(const Node& data) {
  auto node = make_node(data.type, data.name);
  node->sharding = data.sharding;
  node->is_automatic = data.is_automatic;
  node->shard = data.shard;
  node->host = data.host;
  node->is_abstract = data.is_abstract;
  node->is_given = data.is_given;
  node->given_hash = data.given_hash;
  node->is_from_file = data.is_from_file;
  node->shard_hash = data.shard_hash;
  node->bounds = data.bounds;
  return node;
}

Tensor Trace::record(const std::source_location& where, const std::function<Value(Builder&)>& emit) {
  Builder& into = builder();
  into.default_notes = notes(where);
  return wrap(emit(into));
}

Tensor Trace::wrap(Value value, std::optional<Sharding> sharding, std::string name) {
  ensure(value.builder == &builder(), "a value of another trace");
  auto node = make_node(value.type(), std::move(name));
  node->id = value.id;
  node->epoch = epoch_;
  node->frame = frames_.empty() ? 0 : frames_.back()->number;
  node->sharding = std::move(sharding);
  recorded_.push_back(node);
  if (runs_eagerly()) run_at_once(*node);
  auto impl = std::make_shared<TensorImpl>();
  impl->name = node->name;
  impl->node = std::move(node);
  return Tensor(std::move(impl));
}

// ---- values -------------------------------------------------------------------------------------------------------------

Id Trace::input_of(const std::shared_ptr<Node>& node) {
  const auto [entry, fresh] = input_ids_.try_emplace(node.get(), -1);
  if (!fresh) return entry->second;
  const auto number = static_cast<std::int64_t>(inputs_.size());
  const ShardingRef sharding = node->sharding ? make_sharding(*node->sharding) : nullptr;
  const NotesRef before = std::exchange(entry_->default_notes, place_only(entry_->default_notes));
  const Value value = ops::parameter(*entry_, number, node->type, program_name(node->name), sharding);
  entry_->default_notes = before;
  entry->second = value.id;
  inputs_.push_back(node);
  input_indices_[value.id] = static_cast<int>(number);
  return value.id;
}

Value Trace::own_value(const std::shared_ptr<Node>& node) {
  const auto name = [&] { return node->name.empty() ? node->type.str() : node->name; };
  if (node->id >= 0 && node->epoch == epoch_) {
    if (node->frame == 0) return entry_->value(node->id);
    for (const auto& frame : frames_)
      if (frame->number == node->frame) return frame->builder.value(node->id);
    fail(
        "{} was computed inside of a function of cond, a loop or a transform, and has no value outside of it: return "
        "it "
        "from the function",
        name());
  }
  require(node->has_data() || node->is_deferred(), "{} has no value: the step that computes it failed", name);
  return entry_->value(input_of(node));
}

int Trace::input_index(Id parameter) const {
  const auto found = input_indices_.find(parameter);
  return found == input_indices_.end() ? -1 : found->second;
}

Value Trace::stored(const Tensor& tensor) {
  if (tensor.impl().stack) return row_of_stack(tensor.impl());
  if (capture_ != nullptr) capture_use(tensor);
  return here(own_value(tensor.impl().node));
}

// A parameter that functions use is gathered once, outside of them.
Value Trace::use(const Tensor& tensor) {
  TensorImpl& variable = tensor.impl();
  if (variable.stack) return row_of_stack(variable);
  if (capture_ != nullptr) capture_use(tensor);
  const Value raw = own_value(tensor.impl().node);
  if (variable.with_gradient().requires_grad && raw.builder == entry_.get()) {
    const auto same = [&](const Leaf& leaf) { return leaf.stored == raw.id && leaf.used_as == &variable; };
    if (std::none_of(leaves_.begin(), leaves_.end(), same))
      leaves_.push_back({variable.argument ? variable.argument : tensor.impl_pointer(), raw.id, &variable});
  }
  const bool is_plain = (!variable.unshard && !variable.compute_dtype) || variable.stack_count > 0;
  if (raw.builder != entry_.get() || is_plain) return here(raw);
  return here(gathered(tensor, raw));
}

Value Trace::scalar(DType dtype, double value) {
  auto& scalars = frames_.empty() ? scalars_ : frames_.back()->scalars;
  Builder& into = builder();
  const auto [entry, fresh] = scalars.try_emplace({dtype, std::bit_cast<std::uint64_t>(value)}, -1);
  if (fresh) {
    const NotesRef before = std::exchange(into.default_notes, place_only(into.default_notes));
    entry->second = ops::scalar(into, dtype, value).id;
    into.default_notes = before;
  }
  return into.value(entry->second);
}
Value Trace::full(const Type& type, double value) {
  Dims dims = type.dims();  // `type` may be that of an instruction, which moves when another one is recorded
  return ops::splat(scalar(type.dtype(), value), std::move(dims));
}

Value Trace::random_key() {
  if (!random_state_) {
    random_state_ = make_node(Type::array(DType::kU32, {2}), "random_state");
    random_state_->is_given = true;
    random_state_->refresh = [this] { return two_words(hash_mix(hash_mix(0x7e55e4a, seed_), step_)); };
    random_state_->host = random_state_->refresh();
  }
  const Value state = here(own_value(random_state_));
  const Value key = ops::logical_xor(state, ops::constant(builder(), two_words(hash_mix(0xd407, ++random_ops_))));
  return with_iterations(key);
}

// Each iteration of a loop draws other numbers.
Value Trace::with_iterations(Value key) {
  constexpr std::uint64_t kOdd = 0x9e3779b985ebca6b;
  for (const auto& frame : frames_) {
    if (frame->iteration.is_null()) continue;
    const Value count = ops::convert(here(frame->iteration), DType::kU32);
    const Value mixed = ops::multiply(ops::splat(count, {2}), ops::constant(builder(), two_words(kOdd)));
    key = ops::logical_xor(ops::add(key, mixed), ops::shift_right_logical(mixed, full(mixed.type(), 15)));
  }
  return key;
}

Value Trace::first_row() { return first_row_ ? here(own_value(first_row_)) : Value{}; }

void Trace::begin_micro_batch(std::int64_t first_row) {
  require(!first_row_, "a micro-batch within a micro-batch");
  random_ops_ = 0;
  first_row_ = make_node(Type::scalar(DType::kU32), "first_row");
  first_row_->host = Literal::scalar(static_cast<std::uint32_t>(first_row));
}
void Trace::end_micro_batch() { first_row_.reset(); }

MicroBatch::MicroBatch(std::int64_t first_row) { trace().begin_micro_batch(first_row); }
MicroBatch::~MicroBatch() { trace().end_micro_batch(); }

// ---- liveness -----------------------------------------------------------------------------------------------------------

std::vector<std::shared_ptr<Node>> Trace::live_nodes() const {
  std::vector<std::shared_ptr<Node>> live;
  for (const auto& weak : recorded_)
    if (auto node = weak.lock();
        node && node->holders() > 0 && node->epoch == epoch_ && node->id >= 0 && node->frame == 0)
      live.push_back(std::move(node));
  return live;
}

void Trace::clear(bool next_step) {
  forget_computed();
  ++epoch_;
  inputs_.clear();
  input_ids_.clear();
  input_indices_.clear();
  recorded_.clear();
  leaves_.clear();
  gathered_.clear();
  backward_passes_ = 0;
  notes_.clear();
  scalars_.clear();
  random_ops_ = 0;
  checkpoint_count_ = 0;
  frame_count_ = 0;
  first_op_at = 0;
  if (next_step && !first_row_) this->next_step();
  start();
}

void Trace::next_step() {
  ++step_;
  random_state_.reset();
}

// ---- queries of compile() -----------------------------------------------------------------------------------------------

void Trace::at_each_call(const std::function<void()>& action, const std::function<void()>& undo) {
  action();
  if (capture_ != nullptr) capture_->each_call.push_back({action, undo});
}

void Trace::check_at_later_calls(const Tensor& tensor, std::function<void(const Node&)> check) {
  const auto& node = tensor.impl().node;
  if (capture_ != nullptr && node->has_data()) capture_->checks.push_back({node.shared(), std::move(check)});
}

// Called before the value of a tensor is read. Variables that share data now may have different data at a later call,
// so each of them is a separate input.
void Trace::capture_use(const Tensor& tensor) {
  const auto& variable = tensor.impl().stands_for ? tensor.impl().stands_for : tensor.impl_pointer();
  const bool is_current = variable->node == tensor.impl().node;  // not an earlier value of the variable
  TensorImpl& used = is_current ? *variable : tensor.impl();
  const auto variable_of = [](TensorImpl& impl) { return &impl.with_gradient(); };
  if (used.argument && !capture_->assigned.empty()) capture_->reads_late = true;
  for (const auto& weak : capture_->assigned)
    if (const auto assigned = weak.lock())
      require(assigned.get() == &used || variable_of(*assigned) != variable_of(used),
              "compile: the variable {} is also an argument; the function assigns one and then reads the other: use "
              "only one of them",
              [&] { return used.name.empty() ? used.node->type.str() : used.name; });
  const auto [entry, fresh] =
      capture_->variables.try_emplace(tensor.impl().node.get(), Capture::Use{tensor.impl().node.shared(), variable});
  if (fresh || !is_current || !used.node->has_data()) return;
  auto& known = entry->second.variable;
  if (known.expired()) known = variable;
  if (known.lock() == variable) return;
  capture_->undo.emplace_back([variable, node = used.node.shared()] { variable->node = node; });
  variable->node = copy_of(*used.node);
  variable->node->order = used.node->order;  // also data of the caller, or of the function
  tensor.impl().node = variable->node;
  capture_->variables.emplace(variable->node.get(), Capture::Use{variable->node.shared(), variable});
}

void Trace::note_assignment(const std::shared_ptr<TensorImpl>& variable) {
  if (capture_ == nullptr) return;
  const auto& known = capture_->assigned;
  const auto is_variable = [&](const std::weak_ptr<TensorImpl>& assigned) { return assigned.lock() == variable; };
  if (std::none_of(known.begin(), known.end(), is_variable))
    capture_->undo.emplace_back([assigned = std::weak_ptr(variable), node = variable->node.shared()] {
      if (const auto still = assigned.lock()) still->node = node;
    });
  capture_->assigned.emplace_back(variable);
}

void Trace::note_gradient(const std::shared_ptr<TensorImpl>& variable) {
  if (capture_ == nullptr) return;
  const auto recorded = [&](const Node& node) { return node.epoch == epoch_ && node.id >= 0; };
  if (!variable->grad.is_null() && recorded(*variable->grad.impl().node)) return;  // already noted
  capture_->undo.emplace_back([variable, grad = variable->grad] { variable->grad = grad; });
}

// ---- notes --------------------------------------------------------------------------------------------------------------

void Trace::push_scope(Scope scope) {
  if (scope.unit.empty() && !scopes_.empty()) scope.unit = scopes_.back().unit;
  if (!scopes_.empty() && !scopes_.back().checkpoint.empty()) scope.checkpoint = scopes_.back().checkpoint;
  scopes_.push_back(std::move(scope));
}
void Trace::pop_scope() { scopes_.pop_back(); }

void Trace::enter_checkpoint(const std::source_location& where) {
  const std::string path = scopes_.empty() ? std::string() : scopes_.back().path;
  push_scope({path, {}, call_site(where), std::to_string(++checkpoint_count_)});
}

std::source_location Trace::call_site(const std::source_location& otherwise) const {
  return scopes_.empty() || scopes_.back().where.line() == 0 ? otherwise : scopes_.back().where;
}

void Trace::note_call(Error& error) const {
  if (scopes_.size() != 1 || scopes_.back().where.line() == 0) return;
  Instruction call;
  call.notes = notes_at(scopes_.back().where);
  const std::string same = "  at   " + call.source();  // a.cpp:1 is not a.cpp:12
  if (error.place() == same || error.place().starts_with(same + " ") || error.place().starts_with(same + ",")) return;
  error.note("  from " + call.source());
}

NotesRef Trace::notes(const std::source_location& line) {
  ++recorded_ops;
  if (first_op_at == 0) first_op_at = Timeline::now();
  const std::source_location where = library_call.value_or(line);
  std::size_t key = hash_mix(std::hash<const void*>{}(where.file_name()), where.line());
  if (!scopes_.empty())
    for (const auto* text : {&scopes_.back().path, &scopes_.back().unit, &scopes_.back().checkpoint})
      key = hash_mix(key, hash_text(*text));
  NotesRef& slot = notes_[key];
  if (slot) return slot;
  auto made = std::make_shared<Notes>(*notes_at(where));
  if (!scopes_.empty()) {
    made->op_name = scopes_.back().path;
    if (!scopes_.back().unit.empty()) made->frontend_attributes.emplace_back("tessera.unit", scopes_.back().unit);
    if (!scopes_.back().checkpoint.empty())
      made->frontend_attributes.emplace_back(kCheckpointAttribute, scopes_.back().checkpoint);
  }
  return slot = std::move(made);
}

}  // namespace tessera
