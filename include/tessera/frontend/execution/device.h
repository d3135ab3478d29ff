// SPDX-License-Identifier: Apache-2.0
// The handle with which programs written for PyTorch/XLA refer to the accelerator. As in its SPMD mode, a program sees
// one device, `xla:0`, which stands for the devices of all ranks. All tensors are on it.
//
//   Tensor x = Tensor::from(values, {2, 3}).to(xla_device());
//   std::cout << x.device() << '\n' << x;                       xla:0, then the values
#pragma once

#include <iosfwd>
#include <string>

namespace tessera {

/// The handle. device() returns the only one.
class Device {
 public:
  [[nodiscard]] const std::string& type() const { return type_; }
  [[nodiscard]] int index() const { return index_; }
  /// Returns `xla:0`.
  [[nodiscard]] std::string str() const;
  friend bool operator==(const Device&, const Device&) = default;

 private:
  friend Device device();
  Device() = default;
  std::string type_ = "xla";
  int index_ = 0;
};

/// The device of all tensors of the job, on every rank. PJRT_DEVICE selects the backend that runs its programs.
[[nodiscard]] Device device();
/// PyTorch/XLA's name of device().
[[nodiscard]] inline Device xla_device() { return device(); }
/// Prints str().
std::ostream& operator<<(std::ostream& out, const Device& device);

}  // namespace tessera
