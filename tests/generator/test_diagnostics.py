"""Every kind of mistake in a description is found, once, where it was made."""

import re
import unittest
from pathlib import Path

from toy import STREAM, ToyTest

import diagnostics


class Shape(ToyTest):
    def test_the_toy_has_no_mistake(self):
        self.assertEqual(self.findings(), [])

    def test_bad_yaml(self):
        self.write("stream.yaml", "area: stream\ncalls: [\n")
        self.assertEqual([d.kind for d in self.findings()], ["bad-yaml"])

    def test_bad_yaml_a_key_twice(self):
        self.write("stream.yaml", STREAM.replace("  class: query\n", "  class: query\n  class: query\n"))
        found = self.findings()
        self.assertEqual([d.kind for d in found], ["bad-yaml"])
        self.assertEqual(found[0].place.line, 13)

    def test_unknown_key(self):
        self.write("stream.yaml", STREAM.replace("  class: query\n", "  class: query\n  colour: red\n"))
        self.assert_finding("unknown-key", "cuStreamQuery", 13, "colour")

    def test_unknown_key_of_a_parameter(self):
        self.write("stream.yaml", STREAM.replace("hStream: {dir: in}", "hStream: {way: in, dir: in}"))
        self.assert_finding("unknown-key", "cuStreamQuery", 14, "way")

    def test_missing_key(self):
        self.write("stream.yaml", STREAM.replace('  source: "somewhere"\n', "", 1))
        self.assert_finding("missing-key", "cuStreamCreate", text="source")

    def test_bad_value(self):
        self.write("stream.yaml", STREAM.replace("hStream: {dir: in}", "hStream: {dir: sideways}"))
        self.assertIn("bad-value", [d.kind for d in self.findings()])

    def test_a_function_that_cuda_h_does_not_declare(self):
        (self.include / "cuda.h").write_text("")
        self.assertEqual({d.kind for d in self.findings()}, {"no-prototype", "unknown-param", "bad-range"})

    def test_no_header(self):
        (self.include / "cuda.h").unlink()
        self.assertEqual([d.kind for d in self.findings()], ["bad-header"])

    def test_the_message_says_where_and_what(self):
        self.write("stream.yaml", STREAM.replace("class: query", "class: quick"))
        line = str(self.findings()[0])
        self.assertRegex(line, r"^cuda/api/stream.yaml:12: error: cuStreamQuery: class 'quick' .* \[unknown-class\]$")


class Parameters(ToyTest):
    def setUp(self):
        super().setUp()
        self.symbols("cuEventCreate")
        self.lock("0x0501 cuEventCreate")

    def described(self, param: str, how: str, more: str = "class: query") -> None:
        self.declare(f"cuEventCreate({param})")
        self.entry(f"""
            call: cuEventCreate
            id: 0x0501
            {more}
            params:
              {param.split()[-1]}: {{{how}}}
            source: "somewhere"
        """)

    def test_a_right_one(self):
        self.described("CUevent* phEvent", "dir: out")
        self.assertEqual(self.findings(), [])

    def test_a_parameter_that_cuda_h_does_not_declare(self):
        self.described("CUevent* phEvent", "dir: out}\n              flags: {min: 1")
        self.assert_finding("unknown-param", "cuEventCreate", 8, "flags")

    def test_parameters_as_a_list(self):
        self.entry("""
            call: cuEventCreate
            id: 0x0501
            class: ordered
            params:
            - {name: phEvent, dir: out}
            source: "somewhere"
        """)
        self.assert_finding("bad-value", "cuEventCreate", 6, "params")

    def test_what_is_said_of_an_object_is_not_kept_by_generated_code(self):
        self.declare("cuEventCreate(CUstream hStream, int *value)")
        self.entry("""
            call: cuEventCreate
            id: 0x0501
            class: cached
            params:
              value: {dir: out}
            source: "somewhere"
        """)
        self.assert_finding("needs-hook", "cuEventCreate", text="hStream is named")

    def test_unknown_class(self):
        self.described("CUevent* phEvent", "dir: out", "class: sometimes")
        self.assert_finding("unknown-class", "cuEventCreate", 5)

    def test_unknown_type(self):
        self.described("CUsomething hEvent", "dir: in")
        self.assert_finding("unknown-type", "cuEventCreate", 7, "CUsomething")

    def test_pointer_without_direction(self):
        self.described("CUevent* phEvent", "")
        self.assert_finding("pointer-without-dir", "cuEventCreate", 7, "phEvent")

    def test_pointer_to_bytes_without_length(self):
        self.described("void* data", "dir: out")
        self.assert_finding("pointer-without-length", "cuEventCreate", 7, "data")

    def test_pointer_to_numbers_without_length(self):
        self.described("const int* data", "dir: in")
        self.assert_finding("pointer-without-length", "cuEventCreate", 7, "data")

    def test_length_that_is_no_parameter(self):
        self.described("void* data", "dir: out, len: size")
        self.assert_finding("bad-length", "cuEventCreate", 7, "size")

    def test_structure_with_pointers(self):
        self.described("const CUDA_MEMCPY2D* copy", "dir: in")
        found = self.findings()
        self.assertIn("needs-wire", [d.kind for d in found])

    def test_two_payloads(self):
        self.declare("cuEventCreate(const void* a, const void* b)")
        self.entry("""
            call: cuEventCreate
            id: 0x0501
            class: ordered
            params:
              a: {dir: in, len: 4, payload: yes}
              b: {dir: in, len: 4, payload: yes}
            source: "somewhere"
        """)
        self.assert_finding("bad-payload", "cuEventCreate", 8)

    def ranged(self, ranges):
        self.declare("cuEventCreate(CUdeviceptr at, size_t n, int i, const CUmemLocation* items)")
        self.entry(f"""
            call: cuEventCreate
            id: 0x0501
            class: ordered
            params:
              items: {{dir: in, len: n}}
            ranges:
            - {ranges}
            source: "somewhere"
        """)

    def test_a_right_range(self):
        self.ranged("{address: at, bytes: n * 2 + 4, rows: n, pitch: 64, access: write}")
        self.assertEqual(self.findings(), [])

    def test_an_address_without_a_range(self):
        self.ranged("{in: items, access: read}")
        self.assert_finding("range-missing", "cuEventCreate", 3, "at")

    def test_ranges_that_are_none(self):
        for wrong in (
            "{address: at, bytes: n, access: sometimes}",
            "{address: at, bytes: n - 1, access: read}",
            "{address: at, bytes: i, access: read}",
            "{address: at, bytes: m, access: read}",
            "{address: at, bytes: n, rows: 2, access: read}",
            "{address: at, bytes: n, of: everything, access: read}",
            "{address: at, bytes: n, length: 3, access: read}",
            "{in: n, access: read}",
            "{in: items, as: CUsomething, access: read}",
        ):
            with self.subTest(wrong):
                self.setUp()
                self.ranged(wrong)
                self.assertIn("bad-range", [d.kind for d in self.findings()])

    def test_two_parameters_of_one_name(self):
        self.declare("cuEventCreate(int a, int a)")
        self.entry("""
            call: cuEventCreate
            id: 0x0501
            class: ordered
            source: "somewhere"
        """)
        self.assertEqual({d.kind for d in self.findings()}, {"duplicate-name"})

    def test_unknown_handle(self):
        self.entry("""
            call: cuEventCreate
            id: 0x0501
            class: ordered
            hooks: [client, server]
            wire:
            - {name: what, type: handle, kind: spoon}
            source: "somewhere"
        """)
        self.assert_finding("unknown-handle", "cuEventCreate", 8, "spoon")

    def test_unknown_owner_of_a_kind(self):
        types = (self.api / "types.yaml").read_text()
        self.write("types.yaml", types.replace("dies_with: [library, context]", "dies_with: [spoon]"))
        self.described("CUevent* phEvent", "dir: out")
        self.assert_finding("unknown-handle", "", text="spoon")

    def test_reply_that_nobody_waits_for(self):
        self.described("float* ms", "dir: out", "class: ordered")
        self.assert_finding("reply-without-wait", "cuEventCreate")


class Meaning(ToyTest):
    def setUp(self):
        super().setUp()
        self.symbols("cuEventQuery")

    def event(self, number: str = "0x0502", name: str = "cuEventQuery", more: str = "class: query") -> None:
        self.entry(f"""
            call: {name}
            id: {number}
            {more}
            source: "somewhere"
        """)

    def test_duplicate_id(self):
        self.event("0x0402")
        self.assertIn("duplicate-id", [d.kind for d in self.findings()])

    def test_id_changed(self):
        self.lock("0x0502 cuEventQuery")
        self.event("0x0503")
        self.assert_finding("id-changed", "cuEventQuery", text="0x0502")

    def test_id_reused(self):
        self.lock("0x0502 cuEventForgotten")
        self.event()
        self.assert_finding("id-reused", "cuEventQuery", text="cuEventForgotten")

    def test_id_not_locked(self):
        self.event()
        self.assert_finding("id-not-locked", "cuEventQuery", text="0x0502 cuEventQuery")

    def test_duplicate_name(self):
        self.event("0x0502", "cuStreamQuery")
        self.assertIn("duplicate-name", [d.kind for d in self.findings()])

    def locked(self, more: str, name: str = "cuEventQuery") -> None:
        self.lock(f"0x0502 {name}")
        self.event(name=name, more=more.replace("\n", "\n            "))

    def test_local_without_hook(self):
        self.locked("class: local")
        self.assert_finding("needs-hook", "cuEventQuery")

    def test_message_of_its_own_without_hooks(self):
        self.locked("class: blocking\nparks: no\nwire:\n- {name: a, type: u32}")
        self.assert_finding("needs-hook", "cuEventQuery")

    def test_server_hook_of_a_local_call(self):
        self.locked("class: local\nhooks: [client, server]")
        self.assert_finding("hook-without-side", "cuEventQuery")

    def test_client_hook_of_an_internal_call(self):
        self.lock("0x0503 wlThing")
        hooks = "hooks: [client, server]"
        self.event("0x0503", "wlThing", f"class: internal\n            wire: []\n            {hooks}")
        self.write("symbols.txt", (self.api / "symbols.txt").read_text().replace("cuEventQuery cuEventQuery 2000\n", ""))
        self.assert_finding("hook-without-side", "wlThing")

    def test_who_waits_says_whether_the_driver_may_keep_it(self):
        self.locked("class: blocking")
        self.assert_finding("parks-missing", "cuEventQuery")

    def test_who_may_be_overtaken_need_not_say_it(self):
        self.locked("class: blocking\nmay_wait: yes")
        self.assertEqual(self.findings(), [])

    def test_hooks_of_an_unknown_side(self):
        self.locked("class: query\nhooks: [server, moon]")
        self.assert_finding("bad-value", "cuEventQuery", text="list of sides")

    def test_unsupported_without_reason(self):
        self.locked("class: unsupported")
        self.assert_finding("bad-reason", "cuEventQuery")

    def test_reason_without_unsupported(self):
        self.locked('class: query\nreason: "because"')
        self.assert_finding("bad-reason", "cuEventQuery")

    def test_symbol_that_the_driver_has_not(self):
        self.lock("0x0502 cuEventFlip")
        self.declare("cuEventFlip(void)")
        self.event(name="cuEventFlip")
        self.assertEqual({d.kind for d in self.findings()}, {"symbol-surplus", "symbol-missing"})

    def test_symbol_missing(self):
        self.assert_finding("symbol-missing", "cuEventQuery")

    def test_symbol_missing_also_for_a_twin(self):
        self.write("symbols.txt", (self.api / "symbols.txt").read_text().replace("cuEventQuery ", "cuEventQuery_ptsz "))
        self.assert_finding("symbol-missing", "cuEventQuery_ptsz")

    def test_symbol_claimed_twice(self):
        self.locked("class: query\naliases: [cuStreamQuery]")
        self.assertEqual({d.kind for d in self.findings()}, {"symbol-duplicate"})

    def test_all_findings_in_one_run(self):
        self.event("0x0402", more="class: local")
        kinds = [d.kind for d in self.findings()]
        self.assertGreaterEqual(len(kinds), 2)


class Kinds(unittest.TestCase):
    def test_each_kind_has_a_test(self):
        text = Path(__file__).read_text()
        tested = set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', text))
        self.assertEqual(set(diagnostics.KINDS) - tested, set())


if __name__ == "__main__":
    unittest.main()
