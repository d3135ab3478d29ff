// SPDX-License-Identifier: Apache-2.0
// A oneDNN primitive that does not allocate from the heap: its memory objects are kept between runs, and the caller
// provides its scratchpad.
#pragma once

#include <cstddef>
#include <dnnl.hpp>
#include <initializer_list>
#include <unordered_map>
#include <utility>

namespace tessera {

inline const dnnl::engine& cpu_engine() {
  static const dnnl::engine kEngine(dnnl::engine::kind::cpu, 0);  // immutable and safe to share
  return kEngine;
}

/// Returns attributes of a primitive whose scratchpad the caller provides.
inline dnnl::primitive_attr with_given_scratchpad() {
  dnnl::primitive_attr out;
  out.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return out;
}

/// All calls happen on the thread of the plan.
class OneDnnCall {
 public:
  OneDnnCall() = default;
  /// `Made` is a primitive whose description has with_given_scratchpad(). `layouts` lists the layout of each argument
  /// by name.
  template <class Made>
  static OneDnnCall of(const typename Made::primitive_desc& description,
                       std::initializer_list<std::pair<int, dnnl::memory::desc>> layouts) {
    OneDnnCall out;
    out.primitive_ = Made(description);
    for (const auto& [name, layout] : layouts) out.add(name, layout);
    const dnnl::memory::desc scratchpad = description.scratchpad_desc();
    out.scratchpad_bytes_ = static_cast<std::int64_t>(scratchpad.get_size());
    if (out.scratchpad_bytes_ > 0) out.add(DNNL_ARG_SCRATCHPAD, scratchpad);
    return out;
  }
  explicit operator bool() const { return static_cast<bool>(primitive_); }
  [[nodiscard]] std::int64_t scratchpad_bytes() const { return scratchpad_bytes_; }

  void run(const dnnl::stream& stream, std::initializer_list<std::pair<int, const std::byte*>> data,
           std::byte* scratchpad) const {
    for (const auto& [name, place] : data) point(name, place);
    if (scratchpad_bytes_ > 0) point(DNNL_ARG_SCRATCHPAD, scratchpad);
    primitive_.execute(stream, arguments_);
  }

 private:
  void add(int name, const dnnl::memory::desc& layout) {
    arguments_.emplace(name, dnnl::memory(layout, cpu_engine(), DNNL_MEMORY_NONE));
  }
  void point(int name, const std::byte* data) const {
    arguments_.at(name).set_data_handle(const_cast<std::byte*>(data));  // NOLINT: sources are only read
  }

  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
  std::int64_t scratchpad_bytes_ = 0;
};

}  // namespace tessera
