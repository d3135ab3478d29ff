// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/compile/compiled_function.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compile/compiled_form.h"
#include "execution/debug_report.h"
#include "tessera/base/log.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/tree.h"
#include "tessera/runtime/metrics/metrics.h"
#include "tracing/error_context.h"

namespace tessera {
namespace {

// Runs what was traced: before the call, as a separate step, or by a call that is not compiled. Ends the step of ops
// that eager mode has run.
void run_what_is_recorded(const std::source_location& where) {
  const SyncScope place("sync::compile");
  if (trace().has_computed() || !pending_results().nodes.empty()) mark_step(where);
}

std::string texts_of(const std::vector<Tensor>& arguments) {
  std::vector<std::string> out;
  for (const Tensor& argument : arguments) out.push_back(tree_types(argument));
  return fmt::format("({})", fmt::join(out, ", "));
}

bool is_replicated_under(const std::optional<Sharding>& sharding) { return !sharding || sharding->is_replicated(); }

}  // namespace

bool CompiledFunction::Form::fits(const std::vector<Tensor>& arguments) const {
  const auto is_like = [](const ArgumentKey& key, const Tensor& argument) {
    const Node& node = *argument.impl().node;
    return key.type == node.type &&
           (key.sharding == node.sharding || (is_replicated_under(key.sharding) && is_replicated_under(node.sharding)));
  };
  if (!is_same(world_, session().world->identity()) ||
      !std::equal(keys_.begin(), keys_.end(), arguments.begin(), arguments.end(), is_like))
    return false;
  if (!takes_gradients_ && !assigns_arguments_ && !reads_late_) return true;
  for (std::size_t i = 0; i < ties_.size(); ++i)
    if (tie(arguments, i, arguments[i].impl().requires_grad) != ties_[i]) return false;
  return true;
}

// Returns -1 if the argument is only a value, a smaller number for a variable of the function, and otherwise the number
// of the first argument that is the same tensor.
int CompiledFunction::Form::tie(const std::vector<Tensor>& arguments, std::size_t i, bool requires_grad) const {
  const auto& own = arguments[i].impl_pointer();
  const bool has_gradient = takes_gradients_ && requires_grad;
  if (!has_gradient && !assigns_arguments_ && !reads_late_) return -1;
  for (std::size_t k = 0; k < tied_variables_.size(); ++k)
    if (is_same(tied_variables_[k], own)) return -2 - static_cast<int>(k);
  if (!has_gradient && !assigns_arguments_) return -1;
  const auto same = [&](const Tensor& other) { return other.impl_pointer() == own; };
  return static_cast<int>(std::find_if(arguments.begin(), arguments.end(), same) - arguments.begin());
}

// ---- later calls ----------------------------------------------------------------------------------------------------------

namespace {

// Returns the argument with the sharding that the function marks. The caller's tensor stays replicated, because it may
// be passed again for another use.
std::shared_ptr<Node> laid_out(Node& unsharded, const Sharding& sharding) {
  if (unsharded.host) note_given(unsharded);  // compute the hash once for all calls
  auto node = trace().copy_of(unsharded);
  if (!node->host) node->host = node->shard.to_literal();
  node->shard.reset();
  node->sharding = sharding;
  return node;
}

}  // namespace

std::shared_ptr<Node> CompiledFunction::Form::input_node(InputSource& source,
                                                         const std::vector<Tensor>& arguments) const {
  if (source.kind == InputSource::Kind::kFixed) return source.node;
  if (source.kind == InputSource::Kind::kRefreshed) {
    source.node->host = source.node->refresh();
    source.node->shard.reset();
    source.node->is_given = true;
    source.node->given_hash.reset();
    source.node->bounds = {};
    return source.node;
  }
  const bool is_argument = source.kind == InputSource::Kind::kArgument;
  const auto& node = is_argument ? arguments[source.argument].impl().node : source.variable->node;
  if (is_same(source.known, node.shared())) return node;
  const bool is_replicated = is_replicated_under(node->sharding);
  if (is_argument && is_replicated && !source.sharding.is_replicated()) return laid_out(*node, source.sharding);
  const bool has_traced_sharding = is_replicated ? source.sharding.is_replicated() : *node->sharding == source.sharding;
  require(
      has_traced_sharding, "compile: the sharding of {} is {}, but was {} when the function was traced",
      [&] { return node->name.empty() ? node->type.str() : node->name; },
      [&] { return is_replicated ? std::string("replicated") : node->sharding->str(); }, source.sharding);
  if (!is_argument) source.known = node.shared();
  return node;
}

RunArguments CompiledFunction::Form::take_arguments() {
  std::vector<bool> gives_up;
  gives_up.reserve(inputs_.size());
  for (std::size_t i = 0; i < inputs_.size(); ++i)  // only the variable that receives the result holds the input
    gives_up.push_back(inputs_[i].is_donated && extracted_.inputs[i]->holders() <= 1);
  RunArguments out(std::exchange(extracted_.inputs, {}));
  for (const bool one : gives_up) out.add(one);
  return out;
}

// If several variables receive a result, they share one node.
void CompiledFunction::Form::give(std::size_t result, DeviceArray shard, const std::vector<Tensor>& arguments,
                                  std::vector<std::shared_ptr<Node>>& nodes) {
  ResultTarget& target = targets_[result];
  if (target.variables.size() == 1 && target.arguments.empty()) {
    const auto& own = target.variables.front()->node;
    if (own->holders() == 1 && is_same(target.known, own.shared())) {
      own->shard = std::move(shard);
      own->host.reset();
      return;
    }
  }
  auto& node = nodes[result] = trace().make_node(target.type, target.name);
  node->shard = std::move(shard);
  node->sharding = compiled_.results[result];
  for (const auto& variable : target.variables) variable->node = node;
  for (const std::size_t argument : target.arguments) arguments[argument].impl().node = node;
  target.known = node;
}

std::vector<Tensor> CompiledFunction::Form::take_results(std::vector<DeviceArray> shards,
                                                         const std::vector<Tensor>& arguments) {
  std::vector<std::shared_ptr<Node>> nodes(shards.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) give(i, std::move(shards[i]), arguments, nodes);
  std::vector<Tensor> out;
  for (const ReturnSource& source : returned_) {
    if (source.result < 0 || source.argument >= 0) {
      out.push_back(source.argument < 0 ? source.fixed : at(arguments, source.argument));
      continue;
    }
    const ResultTarget& target = at(targets_, source.result);
    const auto& node = at(nodes, source.result);
    auto made = std::make_shared<TensorImpl>();
    made->node = node ? NodeHandle(node) : target.variables.front()->node;
    made->name = target.name;
    out.emplace_back(std::move(made));
  }
  return out;
}

std::vector<DeviceArray> CompiledFunction::Form::run(const std::vector<Tensor>& arguments) {
  for (InputSource& source : inputs_) extracted_.inputs.push_back(input_node(source, arguments));
  materialize(extracted_.inputs, reason_.text);
  begin_run(extracted_, hash_, reason_);
  RunArguments taken = take_arguments();
  metrics().count("CachedCompile");
  ++session().counters.cached;
  return finish_run(extracted_.program, *compiled_.executable, std::move(taken), reason_);
}

void CompiledFunction::Form::run_checks(const std::vector<Tensor>& arguments) const {
  for (const DataCheck& each : checks_) {
    const auto variable = each.variable.lock();
    if (each.argument >= 0)
      each.check(*at(arguments, each.argument).impl().node);
    else if (variable)
      each.check(*variable->node);
  }
}

void CompiledFunction::Form::count_step() {
  metrics().count("MarkStep");
  ++session().counters.mark_steps;
}

std::vector<Tensor> CompiledFunction::Form::call(const std::vector<Tensor>& arguments) {
  run_checks(arguments);
  await_execution();
  std::vector<DeviceArray> results;
  std::size_t done = 0;
  try {
    for (; done < each_call_.size(); ++done) each_call_[done].action();
    count_step();
    if (has_program_) results = run(arguments);
  } catch (...) {  // restore the state, so that the next call starts from the same one
    extracted_.inputs.clear();
    while (done-- > 0)
      if (each_call_[done].undo) each_call_[done].undo();
    throw;
  }
  std::vector<Tensor> out = take_results(std::move(results), arguments);
  trace().next_step();
  report_step();
  return out;
}

// ---- the function ---------------------------------------------------------------------------------------------------------

CompiledFunction::CompiledFunction(Function function, CompileOptions options)
    : CompiledFunction(std::move(function), std::move(options), std::make_shared<detail::TracedForms>(), texts_of) {}

CompiledFunction::CompiledFunction(Function function, CompileOptions options,
                                   std::shared_ptr<detail::TracedForms> traced, detail::ArgumentsText text)
    : function_(std::move(function)),
      options_(std::move(options)),
      traced_(std::move(traced)),
      arguments_text_(std::move(text)) {
  require(function_ != nullptr, "compile: the function is empty");
  require(options_.max_different_graphs >= 0, "compile: max_different_graphs must not be negative, got {}",
          options_.max_different_graphs);
  require(options_.graphs == 1 || options_.graphs == 3, "compile: graphs must be 1 or 3, got {}", options_.graphs);
}
CompiledFunction::~CompiledFunction() = default;
CompiledFunction::CompiledFunction(CompiledFunction&&) noexcept = default;
CompiledFunction& CompiledFunction::operator=(CompiledFunction&&) noexcept = default;

std::vector<Tensor> CompiledFunction::operator()(const std::vector<Tensor>& arguments, std::source_location where) {
  if (trace().is_capturing()) return call_inside_another(arguments, where);
  run_what_is_recorded(where);
  check_arguments(arguments, where);
  for (last_form_ = 0; last_form_ < isize(forms_); ++last_form_)
    if (at(forms_, last_form_)->fits(arguments)) return at(forms_, last_form_)->call(arguments);
  last_form_ = -1;
  if (!options_.jit_compile) return run_traced(arguments, where);
  return has_graph_break_ ? run_uncompiled(arguments, where) : add_form(arguments, where);
}

std::vector<Tensor> CompiledFunction::add_form(const std::vector<Tensor>& arguments,
                                               const std::source_location& where) {
  check_form_count(arguments);
  std::string text = arguments_text_(arguments);  // before the function may assign them
  auto form = std::make_unique<Form>();
  std::vector<Tensor> out;
  try {
    out = form->first_call(function_, arguments, options_, where);
  } catch (const GraphBreak&) {
    has_graph_break_ = true;
    return run_uncompiled(arguments, where);
  }
  ++traced_->count;
  traced_->last_arguments = std::move(text);
  last_form_ = isize(forms_);
  forms_.push_back(std::move(form));
  return out;
}

std::vector<Tensor> CompiledFunction::run_uncompiled(const std::vector<Tensor>& arguments,
                                                     const std::source_location& where) {
  metrics().count("GraphBreak");
  return run_traced(arguments, where);
}

std::vector<Tensor> CompiledFunction::run_traced(const std::vector<Tensor>& arguments,
                                                 const std::source_location& where) {
  std::vector<Tensor> out = function_(arguments);
  run_what_is_recorded(where);
  return out;
}

// The program of the outer function contains the ops of this one.
std::vector<Tensor> CompiledFunction::call_inside_another(const std::vector<Tensor>& arguments,
                                                          const std::source_location& where) {
  const bool is_first = !std::exchange(has_noted_call_, true) && RankContext::current().rank() == 0;
  if (is_first && is_logged(LogLevel::kInfo))
    log_line(
        LogLevel::kInfo,
        fmt::format("note: compile: {} is called in another compiled function, at {}:{}. The outer program contains "
                    "its ops, and the inner compile() has no effect",
                    options_.name.empty() ? "a function" : options_.name, where.file_name(), where.line()));
  last_form_ = -1;
  return function_(arguments);
}

void CompiledFunction::check_arguments(const std::vector<Tensor>& arguments, const std::source_location& where) const {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].is_null())
      in_context("compile", {}, where, [&] {
        fail("argument {} of {} is a null tensor, which has no value", i,
             options_.name.empty() ? "the function" : options_.name);
      });
    require(arguments[i].is_materialized(),
            "compile: argument {} has no value: it is a variable that was never used, or a tensor that was traced but "
            "not computed; call mark_step() first",
            i);
  }
}

void CompiledFunction::check_form_count(const std::vector<Tensor>& arguments) const {
  if (options_.max_different_graphs == 0 || traced_->count < options_.max_different_graphs) return;
  fail(
      "compile: {} was called with arguments {} that fit none of its {} programs, and max_different_graphs is {}; the "
      "last program is for {}",
      options_.name.empty() ? "the function" : options_.name, arguments_text_(arguments), traced_->count,
      options_.max_different_graphs, traced_->last_arguments);
}

}  // namespace tessera
