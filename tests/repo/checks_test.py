#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each check of the tree must complain about a tree that breaks its rule, and name the place."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


def run(script, root):
    result = subprocess.run([sys.executable, TOOLS / script, root], capture_output=True, text=True, check=False)
    return result.returncode, result.stdout


class Checks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def layer_complaint(self, path, include):
        self.write(path, f"// SPDX-License-Identifier: Apache-2.0\n#include {include}\n")
        code, text = run("check_layers.py", self.root)
        self.assertEqual(code, 1, text)
        self.assertIn(f"{path}:2:", text)
        return text

    def test_a_clean_tree_passes(self):
        self.write("src/ir/a.cpp", '#include "tessera/base/error.h"\n#include <vector>\n')
        self.write("collectives/mpi/group.cpp", "#include <mpi.h>\n")
        self.write("examples/hello.cpp", '#include "tessera/tessera.h"\n')
        self.assertEqual(run("check_layers.py", self.root)[0], 0)

    def test_an_empty_tree_is_no_pass(self):
        self.assertEqual(run("check_layers.py", self.root)[0], 1)
        self.assertEqual(run("check_spdx.py", self.root)[0], 1)
        self.assertEqual(run("check_sizes.py", self.root)[0], 1)

    def test_a_lower_layer_may_not_use_a_higher_one(self):
        text = self.layer_complaint("src/ir/a.cpp", '"tessera/ops/op_table.h"')
        self.assertIn("ir may not use ops", text)

    def test_the_partitioner_sees_no_ranks(self):
        self.layer_complaint("partitioner/a.cpp", '"tessera/collectives/process_group.h"')

    def test_siblings_do_not_see_each_other(self):
        self.layer_complaint("include/tessera/autodiff/a.h", '"tessera/passes/pass.h"')

    def test_mpi_is_confined_to_its_folder(self):
        self.layer_complaint("collectives/shared_memory/a.cpp", "<mpi.h>")

    def test_public_headers_are_free_of_eigen_and_onednn(self):
        self.layer_complaint("include/tessera/runtime/a.h", "<Eigen/Core>")
        self.layer_complaint("include/tessera/runtime/b.h", '"oneapi/dnnl/dnnl.hpp"')

    def test_a_module_outside_the_table_is_named(self):
        self.write("src/extras/a.cpp", "")
        self.assertIn("module extras", run("check_layers.py", self.root)[1])

    def test_ops_are_not_told_apart_by_their_names(self):
        self.write("include/tessera/ops/rows.h", "extern const OpDef kAdd, kAllGather, kPad;\n")
        for line in ('if (instruction.op->name == "anything") return;', 'return view.op.name != other;', 'if (name == "all-gather") return 1;',
                     'if (is_one_of(op.name, {"x", "y"})) return;', 'constexpr std::string_view kSome[] = {"add", "pad"};',
                     'made.op = &op_table().get("custom");', 'return op == &rows::kAdd || op == &rows::kPad;'):
            self.write("src/schedule/a.cpp", f"int x;\n{line}\n")
            code, text = run("check_layers.py", self.root)
            self.assertEqual(code, 1, line)
            self.assertIn("src/schedule/a.cpp:2:", text)

    def test_names_of_ops_belong_to_their_rows_and_to_texts(self):
        self.write("include/tessera/ops/rows.h", "extern const OpDef kAdd, kAllGather, kTanh;\n")
        self.write("src/ops/a.cpp", 'if (view.op.name == "add") return;\n')
        self.write("src/ir/text/read_program.cpp", 'if (raw.op->name == "add") return;\n')
        self.write("src/nn/models/gpt2.cpp", 'if (name == "tanh") return;\n')
        self.write("partitioner/a.cpp", 'note = fmt::format("{} stays", instruction.op->name);\nreturn op == &rows::kAdd;\n')
        self.assertEqual(run("check_layers.py", self.root)[0], 0, run("check_layers.py", self.root)[1])

    def test_large_files_folders_and_functions_are_named(self):
        body = "".join(f"  step({i});\n" for i in range(40))
        self.write("src/ir/long.cpp", "int x;\n" * 401)
        self.write("src/ir/functions.cpp", f"void run(int a,\n         int b) {{\n{body}}}\n")
        for number in range(26):
            self.write(f"src/base/part{number}.cpp", "int x;\n")
        code, text = run("check_sizes.py", self.root)
        self.assertEqual(code, 1)
        self.assertIn("src/ir/long.cpp: 401 lines", text)
        self.assertIn("src/base: 26 source files", text)
        self.assertIn("one in ten is longer than", text)

    def test_a_missing_licence_line_is_named(self):
        self.write("src/ir/a.cpp", "int x;\n")
        self.write("src/ir/b.cpp", "// SPDX-License-Identifier: Apache-2.0\n")
        code, text = run("check_spdx.py", self.root)
        self.assertEqual(code, 1)
        self.assertIn("src/ir/a.cpp", text)
        self.assertNotIn("src/ir/b.cpp", text)

    def test_links_that_lead_nowhere_are_named(self):
        self.write("docs/a.md", "# A page\n[good](b.md#one-heading) [bad](c.md) [worse](b.md#two)\n`docs/b.md` `src/ops/NAME.cpp`\n")
        self.write("docs/b.md", "## One `heading`\n`docs/c.md`\n")
        code, text = run("check_links.py", self.root)
        self.assertEqual(code, 1)
        self.assertEqual(
            text,
            "docs/a.md: the link c.md leads nowhere\n"
            "docs/a.md: the link b.md#two names no heading of b.md\n"
            "docs/b.md: there is no docs/c.md\n",
        )


if __name__ == "__main__":
    unittest.main()
