// SPDX-License-Identifier: Apache-2.0
#include "run_task.h"

#include <utility>

#include "plan/batch_size.h"
#include "plan/dry_run.h"
#include "plan/memory_budget.h"
#include "run/log_files.h"
#include "run/output_folder.h"
#include "tasks/tasks.h"
#include "tessera/base/error.h"
#include "tessera/trainer/clm.h"
#include "tessera/trainer/trainer.h"

namespace tessera::trainer {

std::unique_ptr<Task> make_task(const TrainingArguments& arguments) {
  switch (arguments.program) {
    case TrainingProgram::kClm: return make_clm_task(arguments);
    case TrainingProgram::kMlm: return make_mlm_task(arguments);
    case TrainingProgram::kClassification: return make_classification_task(arguments);
    case TrainingProgram::kImages: return make_image_task(arguments);
    case TrainingProgram::kModel: break;  // only its Trainer has the model
  }
  fail("the arguments of a Trainer are not those of a training program, because they name no model and no data sets");
}

int run_task(TrainingArguments arguments) {
  if (arguments.dry_run) return dry_run(std::move(arguments));
  const OutputFolder output(arguments);  // before a checkpoint is read, because it may restore some
  check_log_files(arguments);
  if (arguments.auto_find_batch_size) arguments = with_largest_batch(std::move(arguments));
  if (!arguments.max_memory_per_rank.empty()) arguments = within_memory(std::move(arguments));
  const std::unique_ptr<Task> task = make_task(arguments);
  return Trainer(arguments, *task).run();
}

}  // namespace tessera::trainer
