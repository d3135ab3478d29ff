// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/execution/runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <ostream>
#include <string_view>
#include <vector>

#include "execution/debug_report.h"
#include "execution/doctor_record.h"
#include "execution/execute.h"
#include "execution/recording.h"
#include "sharding/choose_shardings.h"
#include "tessera/base/argument_parser.h"
#include "tessera/base/command_line.h"
#include "tessera/base/files.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/collectives/world.h"
#include "tessera/frontend/execution/device.h"

namespace tessera {

void join_world(std::shared_ptr<ProcessGroup> world) {
  await_execution();
  session().world = std::move(world);
}
void join_world(ProcessGroup& world) {
  join_world(std::shared_ptr<ProcessGroup>(&world, [](ProcessGroup*) {}));
}
std::shared_ptr<ProcessGroup> joined_world() { return session().world; }

// ---- Runtime ------------------------------------------------------------------------------------------------------------

namespace {

void join_communicator(const Communicator& communicator) {
  check_backend();
  warn_of_unknown_variables();
  Session& state = session();
  state.world = communicator.shared_group();
  state.local_ranks = communicator.local_size();
  const auto threads = std::max<std::int64_t>(1, options().integer("TESSERA_NUM_THREADS"));
  state.job = {communicator.size(),
               communicator.node_count(),
               false,
               communicator.host_names(),
               communicator.oversubscription_note(static_cast<int>(threads)),
               communicator.nodes(),
               communicator.shares_memory()};
  record_start();
  begin_requested_trace();
}

// Writes the last reports and releases everything that holds the groups of the world, before the world is destroyed.
void leave_world() {
  await_execution();
  end_trace();
  report_end();
  RankContext::current().set(std::make_shared<Trace>());
  RankContext::current().set(std::make_shared<Session>());
  clear_compile_cache();
}

}  // namespace

JobInfo job_info() {
  JobInfo out = session().job;
  out.ranks = session().world->size();
  return out;
}

namespace {

constexpr std::string_view kVirtualRanks = "--virtual_ranks";

// A flag in the form with `_` between its words: --virtual-ranks becomes --virtual_ranks.
std::string with_underscores(std::string_view flag) {
  std::string out(flag);
  const std::size_t end = std::min(out.find('='), out.size());
  for (std::size_t i = 2; i < end; ++i)
    if (out[i] == '-') out[i] = '_';
  return out;
}

}  // namespace

Runtime::Runtime(int argc, char** argv) {
  if (RankContext::current().get<Session>().world) return;
  for (int i = 1; i < argc; ++i)
    require(!with_underscores(argv[i]).starts_with("--virtual_ranks"),
            "--virtual_ranks needs tessera::launch(argc, argv, body) around the program; a Runtime alone does not "
            "create ranks");
  require(virtual_rank_count(kVirtualRanks, 0) == 0,
          "CPU_NUM_DEVICES={} needs tessera::launch(argc, argv, body) around the program; a Runtime alone does not "
          "create ranks",
          options().integer("CPU_NUM_DEVICES"));
  communicator_ = std::make_unique<Communicator>(make_world(argc, argv));
  join_communicator(*communicator_);
}
Runtime::~Runtime() {
  if (!communicator_) return;
  if (std::uncaught_exceptions() == 0) {
    leave_world();
    return;
  }
  save_own_trace();
  report_end();  // the communicator ends the job; the running step still uses the world
}
int Runtime::rank() const { return session().world->rank(); }
int Runtime::rank_count() const { return session().world->size(); }

namespace {

constexpr std::string_view kNumCores = "--num_cores";  // the name of --virtual_ranks in xla_spawn.py

// The flag for virtual ranks that the word is, with or without `=N`; "" for other words.
std::string_view virtual_ranks_flag(const std::string& word) {
  for (const std::string_view flag : {kVirtualRanks, kNumCores})
    if (word == flag || word.starts_with(std::string(flag) + "=")) return flag;
  return "";
}

int rank_count_of(std::string_view flag, const std::string& value) {
  char* end = nullptr;
  const long count = std::strtol(value.c_str(), &end, 10);
  constexpr long kMost = 4096;
  require(!value.empty() && *end == '\0' && count >= 1 && count <= kMost, "{} needs a number from 1 to {}, got {}",
          flag, kMost, value);
  return virtual_rank_count(flag, static_cast<int>(count));
}

// The virtual ranks of a file with flags (`program FILE.json`), or 0. Ranks that mpirun has started replace them.
int virtual_ranks_in_file(const std::vector<char*>& arguments) {
  if (arguments.size() < 2 || !ArgumentParser::is_file(arguments[1]) || mpirun_started_several()) return 0;
  std::int64_t count = 0;
  try {
    const JsonObject file = JsonObject::from_file(arguments[1]);
    for (const std::string_view flag : {kVirtualRanks, kNumCores}) file.read(flag.substr(2), count);
  } catch (const Error&) {  // the program reports it
    return 0;
  }
  return count == 0 ? 0 : rank_count_of(fmt::format("{}: {}", arguments[1], kVirtualRanks), std::to_string(count));
}

// Removes `--virtual_ranks N` (or =N) from the arguments. Returns N, that of the last flag. If the flag is absent, returns
// the number of a file with flags, or else CPU_NUM_DEVICES.
int take_virtual_ranks(std::vector<char*>& arguments) {
  std::string values[2];  // of the two names
  int count = 0;
  for (std::size_t i = 1; i < arguments.size();) {
    const std::string text = with_underscores(arguments[i]);
    const std::string_view flag = virtual_ranks_flag(text);
    if (flag.empty()) {
      ++i;
      continue;
    }
    const bool joined = text != flag;
    require(joined || i + 1 < arguments.size(), "{} needs a number", flag);
    const std::string value = joined ? text.substr(flag.size() + 1) : arguments[i + 1];
    const auto first = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    arguments.erase(first, first + (joined ? 1 : 2));
    count = rank_count_of(flag, value);
    values[flag == kNumCores ? 1 : 0] = value;
  }
  require(values[0].empty() || values[1].empty() || values[0] == values[1],
          "{} {} and {} {} are names of one flag with different values; give only one", kVirtualRanks, values[0],
          kNumCores, values[1]);
  if (count == 0) count = virtual_ranks_in_file(arguments);
  return count > 0 ? count : virtual_rank_count(kVirtualRanks, 0);
}

// Runs a part of the program. If it fails, the rank writes what it has recorded.
void save_trace_of_error(const std::function<void()>& run) {
  try {
    run();
  } catch (...) {
    save_own_trace();
    throw;
  }
}

int run_virtually(int count, const std::vector<char*>& arguments, const std::function<int(int, char**)>& body) {
  std::vector<int> results(static_cast<std::size_t>(count), 0);
  run_virtual_ranks(count, [&](ProcessGroup& world) {
    join_world(world);
    session().job.is_virtual = true;
    check_backend();
    warn_of_unknown_variables();
    record_start();
    begin_requested_trace();
    std::vector<char*> own = arguments;
    own.push_back(nullptr);
    save_trace_of_error([&] {
      at(results, world.rank()) = body(static_cast<int>(arguments.size()), own.data());
      await_execution();
      end_trace();
    });
    report_end();
  });
  for (const int result : results)
    if (result != 0) return result;
  return 0;
}

}  // namespace

namespace {

// Runs the program with the ranks of mpirun's job, or with one rank.
int run_in_job(int argc, char** argv, const std::function<int(int, char**)>& body) {
  std::optional<Communicator> joined;
  try {
    joined.emplace(make_world(argc, argv));
  } catch (const std::exception& error) {
    return fail_before_world(message_for_user(error), 1);
  }
  Communicator& communicator = *joined;
  int result = 0;
  const int failed = guard_main(communicator, [&] {
    join_communicator(communicator);
    save_trace_of_error([&] {
      result = body(argc, argv);
      leave_world();
    });
  });
  return failed != 0 ? failed : result;
}

}  // namespace

int launch(int argc, char** argv, const std::function<int(int, char**)>& body) {
  std::vector<char*> arguments(argv, argv + argc);
  int count = 0;
  try {
    count = read_option("", [&] { return take_virtual_ranks(arguments); });
  } catch (const std::exception& error) {
    return fail_before_world(fmt::format("error: {}", message_for_user(error)), exit_code_of(error));
  }
  if (count == 0) return status_after_output(run_in_job(argc, argv, body));
  try {
    return status_after_output(run_virtually(count, arguments, body));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", message_for_user(error).c_str());
    return exit_code_of(error);
  }
}

// ---- devices and meshes -------------------------------------------------------------------------------------------------

Device device() { return {}; }
std::string Device::str() const { return fmt::format("{}:{}", type_, index_); }
std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.str(); }

std::int64_t device_count() {
  const Session& state = session();
  return state.planned_devices > 0 ? state.planned_devices : state.world->size();
}

void plan_for_devices(std::int64_t devices) {
  require(devices >= 1, "a plan needs at least one device, got {}", devices);
  session().planned_devices = devices;
}
bool is_planning() { return session().planned_devices > 0; }

void set_default_mesh(const Mesh& mesh) {
  require(
      mesh.device_count() == device_count(),
      "{0} has {1} devices, but this job has {2}: start {1} ranks (mpirun -np {1}, or --virtual_ranks {1}), or give a "
      "mesh for {2}",
      mesh, mesh.device_count(), device_count());
  session().mesh = mesh;
}

Mesh default_mesh() {
  const Session& state = session();
  if (state.mesh) return *state.mesh;
  return automatic_mesh().value_or(Mesh({{"data", device_count()}}));
}

const std::vector<CompiledProgram>& compiled_programs() {
  await_execution();  // its entries are complete only after the last run
  return session().programs;
}

LazyCounters lazy_counters() {
  LazyCounters out = session().counters;
  out.recorded_ops = trace().recorded_ops;
  return out;
}

}  // namespace tessera
