"""What the generator makes of a description of NVML, and what it finds wrong with one."""

import contextlib
import io
import pathlib
import re
import sys
import tempfile
import unittest

GENERATOR = pathlib.Path(__file__).resolve().parents[2] / "cuda" / "gen"
REAL = GENERATOR.parent / "nvml"
sys.path.insert(0, str(GENERATOR))

import nvml  # noqa: E402

TOY = """
asked:
- {call: nvmlA, id: 1, in: [[0, 1], [4]], below: [3, 9], out: [u64]}
- {call: nvmlB, id: 3, out: [text], once: yes, aliases: [nvmlB_v2]}
pairs:
- {call: nvmlP, id: 100, in: [0, 1]}
fields: [7]
system:
- {call: nvmlS, id: 9}
own: [nvmlOwn]
"""
SYMBOLS = "nvmlA nvmlB nvmlB_v2 nvmlP nvmlS nvmlOwn nvmlRest"


class NvmlTest(unittest.TestCase):
    def generate(self, description, symbols=SYMBOLS):
        """The exit status, what was said, and the files."""
        with tempfile.TemporaryDirectory() as folder:
            api, out = pathlib.Path(folder, "api"), pathlib.Path(folder, "out")
            api.mkdir()
            (api / "calls.yaml").write_text(description)
            (api / "symbols.txt").write_text("# a line\n" + symbols.replace(" ", "\n") + "\n")
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                status = nvml.main(["--api", str(api), "--out", str(out)])
            return status, said.getvalue(), {p.name: p.read_text() for p in out.glob("**/*") if p.is_file()}

    def test_questions(self):
        status, said, files = self.generate(TOY)
        self.assertEqual((status, said), (0, ""))
        rows = re.findall(r"\{QuestionKind::(\w+), (\d+), \"(\w+)\", (\d), \{([\d, ]+)\}, \{([\d, ]+)\}, (\d), \{([\d, ]+)\}, 0, (\w+), (\w+)\}",
                          files["questions.gen.cpp"])
        self.assertEqual(rows, [
            ("device", "1", "nvmlA", "2", "0, 4", "3, 9", "1", "8", "false", "false"), ("device", "2", "nvmlA", "2", "1, 4", "3, 9", "1", "8", "false", "false"),
            ("device", "3", "nvmlB", "0", "0", "0", "1", "0", "true", "true"), ("pair", "100", "nvmlP", "1", "0", "0", "1", "4", "false", "false"),
            ("pair", "164", "nvmlP", "1", "1", "0", "1", "4", "false", "false"), ("system", "9", "nvmlS", "0", "0", "0", "0", "0", "true", "false")])

    def test_each_symbol_is_exported_and_has_one_body(self):
        _, _, files = self.generate(TOY)
        for name in SYMBOLS.split():
            self.assertIn(f"    {name};", files["exports.map"])
            self.assertEqual(len(re.findall(rf"^WL_NVML int {name}\(", files["entries.gen.cpp"], re.M)), 0 if name == "nvmlOwn" else 1, name)
        self.assertIn('refuse("nvmlRest", told)', files["entries.gen.cpp"])
        self.assertIn("int nvmlB_v2(void* device, char* out0, uint32_t length) {\n    return answer(device, 2, 1, {}, {out0}, length);",
                      files["entries.gen.cpp"])

    def test_inputs_that_were_added(self):
        more = "- {call: nvmlA, id: 20, in: [[2], [4, 5]], below: [3, 9], out: [u64]}\n- {call: nvmlB, id: 3"
        status, said, files = self.generate(TOY.replace("- {call: nvmlB, id: 3", more))
        self.assertEqual((status, said), (0, ""))
        self.assertIn("answer(device, 0, 4, {in0, in1}, {out0}, 0)", files["entries.gen.cpp"])
        self.assertIn("{QuestionKind::device, 21, \"nvmlA\", 2, {2, 5}", files["questions.gen.cpp"])
        status, said, _ = self.generate(TOY.replace("- {call: nvmlB, id: 3", more.replace("u64", "u32")))
        self.assertEqual(status, 1)
        self.assertIn("nvmlA: what follows it differs", said)

    def test_asked_and_answered_by_other_code(self):
        status, said, files = self.generate(TOY.replace("out: [u64]", "out: [u64], own: yes"))
        self.assertEqual((status, said), (0, ""))
        self.assertIn("{QuestionKind::device, 1, \"nvmlA\"", files["questions.gen.cpp"])
        self.assertNotIn("int nvmlA(", files["entries.gen.cpp"])
        self.assertIn("    nvmlA;", files["exports.map"])

    def test_what_is_told_where_a_server_has_no_value(self):
        _, _, files = self.generate(TOY.replace("in: [0, 1]}", "in: [0, 1], else: 6}"))
        self.assertIn("answer_pair(device, other, 3, 2, {in0}, 6, out0);", files["entries.gen.cpp"])
        self.assertIn("answer_pair(device, other, 3, 2, {in0}, std::nullopt, out0);", self.generate(TOY)[2]["entries.gen.cpp"])

    def test_mistakes(self):
        for before, after, wanted in (
                ("own: [nvmlOwn]", "own: [nvmlB]", "nvmlB is described twice"),
                ("own: [nvmlOwn]", "own: [nvmlC]", "nvmlC is no function of symbols.txt"),
                ("call: nvmlB, id: 3", "call: nvmlB, id: 2", "nvmlB: the number 2 is nvmlA"),
                ("call: nvmlS, id: 9", "call: nvmlS, id: 70000", "nvmlS: the number 70000 is none"),
                ("out: [u64]", "out: [u63]", "nvmlA: `u63` is no output"),
                ("once: yes", "ones: yes", "nvmlB: `ones` is no key here"),
                ("below: [3, 9]", "below: [1, 9]", "nvmlA: `below` has one number for each input"),
                ("below: [3, 9]", "below: [2]", "nvmlA: `below` has one number for each input"),
                ("out: [text]", "out: [text, u32]", "nvmlB: a text is alone")):
            with self.subTest(after):
                status, said, files = self.generate(TOY.replace(before, after))
                self.assertEqual((status, files), (1, {}))
                self.assertIn(wanted, said)

    def test_the_real_description(self):
        api = nvml.Description(REAL)
        self.assertEqual(api.mistakes, [])
        own = set()
        for path in (REAL.parents[1] / "client" / "nvml").glob("*.cpp"):
            own |= set(re.findall(r"^WL_NVML [\w ]+\*? (nvml\w+)\([^;]*\{", path.read_text(), re.M))
        self.assertEqual(own, set(api.own))


if __name__ == "__main__":
    unittest.main()
