// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/device_loader.h"

#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera::data {

const Tensor& DeviceBatch::at(std::string_view name) const {
  const auto found = tensors.find(name);
  std::vector<std::string> known;
  for (const auto& [key, tensor] : tensors) known.push_back(key);
  require(found != tensors.end(), "the batch has no array \"{}\"{}", name, [&] { return suggest_name(name, known); });
  return found->second;
}

MpDeviceLoader::MpDeviceLoader(Loader& loader, DeviceLoaderOptions options, std::source_location where)
    : loader_(&loader), options_(std::move(options)), where_(where) {
  require(options_.batches_per_execution >= 1, "batches_per_execution must be at least 1, got {}",
          options_.batches_per_execution);
  if (options_.input_sharding) loader.set_input_sharding(*options_.input_sharding);
}

std::optional<DeviceBatch> MpDeviceLoader::next_batch() {
  const auto batch = loader_->next();
  if (!batch) return std::nullopt;
  DeviceBatch out;
  out.real_rows = batch->real_rows;
  for (const auto& field : batch->fields) {
    Tensor tensor = batch->tensor(field.name);
    tensor.set_name(field.name);
    out.tensors.emplace(field.name, std::move(tensor));
  }
  return out;
}

MpDeviceLoader::Iterator& MpDeviceLoader::Iterator::operator++() {
  batch_.reset();  // its tensors end with the step
  const SyncScope place("sync::loader");
  const bool is_due = unmarked_ >= loader_->options_.batches_per_execution;
  if (is_due) mark_step(loader_->where_);
  batch_ = loader_->next_batch();
  if (!batch_ && !is_due) mark_step(loader_->where_);
  unmarked_ = is_due ? 1 : unmarked_ + 1;
  return *this;
}

}  // namespace tessera::data
