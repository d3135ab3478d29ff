// SPDX-License-Identifier: Apache-2.0
#include "tracing/error_context.h"

#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera {
namespace {

// `  lhs  %x: f32[128,64] {data,-}    train.cpp:40`
std::string tensor_line(const Tensor& tensor, const std::string& label) {
  const Node& node = *tensor.impl().node;
  const Instruction* made = trace().instruction_of(node);
  const std::string name = !tensor.name().empty() ? tensor.name() : made != nullptr ? made->name : "input";
  std::string line = fmt::format("  {:<4} %{}: {}", label, name, node.type.str());
  if (node.sharding) line += " " + node.sharding->str();
  if (made != nullptr && !made->source().empty()) line += "    " + made->source();
  return line;
}

}  // namespace

std::string what_is(const Tensor& tensor) {
  return tensor.name().empty() ? tensor.type().str() : fmt::format("{} {}", tensor.name(), tensor.type().str());
}

void add_context(Error& error, std::string_view name, const std::vector<const Tensor*>& tensors,
                 const std::source_location& where) {
  if (!error.place().empty()) return;
  const std::string prefix = fmt::format("{}: ", name);
  if (!name.empty() && !std::string_view(error.what()).starts_with(prefix)) error.prefix(prefix);
  for (int i = 0; i < isize(tensors); ++i) {
    if (at(tensors, i) == nullptr || at(tensors, i)->is_null()) continue;
    const std::string label = tensors.size() != 2 ? fmt::format("#{}", i) : i == 0 ? "lhs" : "rhs";
    error.note(tensor_line(*at(tensors, i), label));
  }
  Instruction here;
  here.notes = trace().notes(where);
  const auto& context = RankContext::current();
  const std::string path = here.notes->op_name.empty() ? "" : " in " + here.notes->op_name;
  error.note_place(
      fmt::format("  at   {}{}, rank {} of {}", here.source(), path, context.rank(), context.rank_count()));
}

void detail::note_library_call(Error& error, const std::vector<const Tensor*>& tensors,
                               const std::source_location& where) {
  add_context(error, "", tensors, where);
}

}  // namespace tessera
