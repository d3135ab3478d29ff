// SPDX-License-Identifier: Apache-2.0
#include "mpi/session.h"

#include <array>
#include <cstdlib>
#include <limits>

#include "mpi/deadline.h"
#include "tessera/base/text.h"

namespace tessera::collectives {
namespace {

constexpr std::array<const char*, 4> kSizeVariables = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                                       "PMIX_SIZE"};

int launched_size() {
  for (const char* name : kSizeVariables)
    if (const char* text = std::getenv(name)) return std::atoi(text);
  return std::getenv("PMIX_RANK") != nullptr ? 0 : 1;  // 0: more than one, but the number is unknown
}

bool is_running() {
  int started = 0;
  int ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  return started != 0 && ended == 0;
}

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail("{}: {}", call, text.data());
}

int checked_count(std::size_t count) {
  ensure(count <= static_cast<std::size_t>(std::numeric_limits<int>::max()), "an MPI count of {} does not fit an int",
         count);
  return static_cast<int>(count);
}

MpiCommunicator::MpiCommunicator(MPI_Comm handle, const std::string& name) : handle_(handle) {
  check_mpi(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  const std::string truncated = name.substr(0, MPI_MAX_OBJECT_NAME - 1);
  check_mpi(MPI_Comm_set_name(handle_, truncated.c_str()), "MPI_Comm_set_name");
}

MpiCommunicator& MpiCommunicator::operator=(MpiCommunicator&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

MpiCommunicator::~MpiCommunicator() {
  if (handle_ != MPI_COMM_NULL && is_running()) MPI_Comm_free(&handle_);
}

MpiCommunicator make_communicator(MPI_Comm world, const std::vector<int>& world_ranks, int tag,
                                  const std::string& name) {
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group some = MPI_GROUP_NULL;
  MPI_Comm out = MPI_COMM_NULL;
  check_mpi(MPI_Comm_group(world, &all), "MPI_Comm_group");
  check_mpi(MPI_Group_incl(all, checked_count(world_ranks.size()), world_ranks.data(), &some), "MPI_Group_incl");
  const int code = MPI_Comm_create_group(world, some, tag, &out);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  check_mpi(code, "MPI_Comm_create_group");
  return {out, name};
}

int launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "PMIX_RANK"})
    if (const char* text = std::getenv(name)) return std::atoi(text);
  return 0;
}

bool has_launcher() { return launched_size() != 1 || std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr; }

void start_mpi(int* argc, char*** argv) {
  if (is_running()) return;
  int provided = 0;
  const Deadline limit("MPI_Init", launched_rank(), launched_size());
  // Serialized: one thread at a time, but not always the thread that started MPI.
  const int code = MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided);
  require(code == MPI_SUCCESS, "MPI_Init_thread failed with code {}", code);
  require(provided >= MPI_THREAD_SERIALIZED, "this MPI supports only thread level {}; MPI_THREAD_SERIALIZED is needed",
          provided);
  int size = 0;
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  const int launched = launched_size();
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> version{};
  int length = 0;
  MPI_Get_library_version(version.data(), &length);
  require(
      launched == 0 || launched == size,
      "a launcher started {} ranks, but MPI sees {}: the launcher belongs to another MPI than the one linked here ({})",
      launched, size, version.data());
}

void stop_mpi() {
  if (is_running()) MPI_Finalize();
}

}  // namespace tessera::collectives
