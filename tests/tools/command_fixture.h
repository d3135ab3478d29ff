// SPDX-License-Identifier: Apache-2.0
// Runs the `tessera` program like a user: output, messages, exit codes.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/process/io.hpp>
#include <boost/process/start_dir.hpp>
#include <boost/process/system.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace tessera::command_tests {

inline constexpr const char* kMegatron =
    "mlp.hlo --mesh data=2,model=3 --annotate x=data,- --annotate w=-,model --annotate v=model,- ";

namespace fs = std::filesystem;

inline std::string content(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

struct Outcome {
  int code = -1;
  std::string out;
  std::string error;
};

class TesseraCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / fmt::format("tessera_command_{}_{}", info->name(), ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // Allows mpirun as root and on one core, even without ctest.
  static void allow_mpirun() {
    for (const char* name :
         {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"})
      ::setenv(name, "1", 0);
  }

  // Runs in the folder of the test data, so that messages contain file names without folders.
  [[nodiscard]] Outcome run(const std::string& arguments, const std::string& before = "") const {
    namespace bp = boost::process;
    for (const char* name : {"out", "error"}) fs::remove(path(name));  // Boost.Process does not truncate a file
    const int code = bp::system("/bin/sh", "-c", fmt::format("{} '{}' {}", before, TESSERA_COMMAND, arguments),
                                bp::start_dir = TESSERA_DATA, bp::std_out > path("out"), bp::std_err > path("error"));
    return {code, content(path("out")), content(path("error"))};
  }

  static void expect_golden(const std::string& name, const std::string& text) {
    const fs::path golden = fs::path(TESSERA_DATA) / name;
    if (std::getenv("TESSERA_UPDATE_GOLDEN") != nullptr) std::ofstream(golden) << text;
    EXPECT_EQ(text, content(golden)) << "set TESSERA_UPDATE_GOLDEN=1 to accept";
  }

 private:
  fs::path folder_;
};

}  // namespace tessera::command_tests
