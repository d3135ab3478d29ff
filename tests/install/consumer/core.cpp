// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "tessera/sharding/mesh.h"
#include "tessera/sharding/sharding.h"
#include "tessera/tensor/type.h"
#include "tessera/version.h"

int main() {
  const auto mesh = tessera::Mesh::parse("data=2,model=3");
  const auto type = tessera::Type::array(tessera::DType::kF32, {4, 6});
  std::printf("tessera %s: %s on %s\n", tessera::kVersion, type.str().c_str(), mesh.str().c_str());
}
