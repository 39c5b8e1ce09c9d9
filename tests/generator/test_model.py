"""How parameters travel, and what templates see of a call."""

import unittest

from toy import ToyTest

import mapping


class Names(unittest.TestCase):
    def test_structs_and_fields(self):
        self.assertEqual(mapping.struct_name("cuMemAlloc_v2"), "CuMemAllocV2")
        self.assertEqual(mapping.struct_name("wlMap"), "WlMap")
        self.assertEqual(mapping.field_name("captureStatus_out"), "captureStatusOut")
        self.assertEqual(mapping.field_name("Flags"), "flags")


class Calls(ToyTest):
    def test_handle_out_is_in_the_request(self):
        call = self.read().call("cuStreamCreate")
        fields = [(f.name, f.type, f.capnp_type, f.ordinal) for f in call.request.fields]
        self.assertEqual(fields, [("phStream", "handle", "UInt64", 0), ("flags", "u32", "UInt32", 1)])
        self.assertEqual(call.reply.fields, [])
        self.assertEqual(call.params[0].kind, "handle_out")
        self.assertEqual(call.params[0].handle.name, "stream")
        self.assertFalse(call.waits)

    def test_payload(self):
        call = self.read().call("cuMemcpyHtoD_v2")
        self.assertEqual(call.payload, "in")
        self.assertEqual([f.name for f in call.request.fields], ["dstDevice", "byteCount"])
        self.assertEqual(call.payload_param.len, "ByteCount")
        self.assertTrue(call.payload_param.check_null)

    def fills(self, sends: str, align: str = "align: 2") -> None:
        self.symbols("cuFill", "cuFillAsync")
        self.declare("cuFill(CUdeviceptr at, size_t Count)", "cuFillAsync(CUdeviceptr at, size_t Count, CUstream hStream)")
        self.lock("0x0501 cuFill", "0x0502 cuFillAsync")
        self.entry(f"""
            call: cuFill
            id: 0x0501
            class: ordered
            sends: {sends}
            source: "somewhere"
        """)
        text = (self.api / "extra.yaml").read_text()
        self.write("extra.yaml", text + f"""\
- call: cuFillAsync
  id: 0x0502
  class: ordered
  ranges:
  - {{address: at, bytes: Count * 2, access: write, {align}}}
  source: "somewhere"
""")

    def test_forms_without_a_stream(self):
        self.fills("cuFillAsync")
        api = self.read()
        self.assertFalse(api.call("cuFill").travels)
        self.assertIs(api.call("cuFill").target, api.call("cuFillAsync"))
        self.assertEqual(api.call("cuFillAsync").client_regions, [("Region{Checked(at), Checked(Count) * Checked(2)}", 2, "at")])

    def test_forms_without_a_stream_of_another_call(self):
        self.fills("cuStreamQuery")
        self.assertEqual([(d.kind, d.entry) for d in self.findings()], [("bad-value", "cuFill")])

    def test_ranges_that_the_client_cannot_look_at(self):
        self.fills("cuFillAsync", "align: 0")
        self.assertEqual([(d.kind, d.entry) for d in self.findings()], [("bad-range", "cuFillAsync")])

    def test_what_a_new_object_dies_with(self):
        self.symbols("cuStreamOf", "cuGraphNodeOf", "cuLibraryOf")
        self.lock("0x0501 cuStreamOf", "0x0502 cuGraphNodeOf", "0x0503 cuLibraryOf")
        expected = {"cuStreamOf": ("CUstream", "context"), "cuGraphNodeOf": ("CUgraphNode", "hGraph"), "cuLibraryOf": ("CUlibrary", "")}
        for i, (name, (made, _)) in enumerate(expected.items()):
            self.declare(f"{name}({made}* made, CUcontext ctx, CUgraph hGraph)")
            self.entry(f"""
                call: {name}
                id: 0x050{i + 1}
                class: create
                params:
                  made: {{dir: out}}
                source: "somewhere"
            """, f"extra{i}")
        for name, (_, owner) in expected.items():
            call = self.read().call(name)
            self.assertEqual(call.owner_of(call.params[0]), owner, name)

    def test_twins_and_symbols(self):
        api = self.read()
        self.assertEqual(api.call("cuStreamQuery").symbols, ["cuStreamQuery", "cuStreamQuery_ptsz"])
        self.assertEqual(api.call("cuStreamQuery").twin_arguments, "per_thread_stream(hStream)")
        self.assertEqual(api.call("cuMemcpyHtoD_v2").twins[0].suffix, "ptds")

    def test_streams_may_be_null_and_other_handles_not(self):
        self.symbols("cuEventDestroy")
        self.declare("cuEventDestroy(CUevent hEvent)")
        self.lock("0x0501 cuEventDestroy")
        self.entry("""
            call: cuEventDestroy
            id: 0x0501
            class: ordered
            params:
              hEvent: {destroys: yes}
            source: "somewhere"
        """)
        api = self.read()
        self.assertTrue(api.call("cuStreamQuery").params[0].null_ok)
        self.assertFalse(api.call("cuEventDestroy").params[0].null_ok)
        self.assertEqual(api.call("cuEventDestroy").destroyed.name, "hEvent")

    def test_every_natural_form(self):
        self.symbols("cuEverything")
        self.lock("0x0501 cuEverything")
        forms = [
            ("a", "int", "dir: in", "scalar", "i32", None),
            ("b", "size_t*", "dir: out", "scalar_out", None, "u64"),
            ("c", "int*", "dir: inout", "scalar_inout", "i32", "i32"),
            ("d", "const CUgraphNode*", "dir: in, len: a", "handles_in", "list_u64", None),
            ("e", "const CUmemLocation*", "dir: in", "struct_in", "data", None),
            ("f", "CUuuid*", "dir: out", "struct_out", None, "data"),
            ("g", "const CUmemAccessDesc*", "dir: in, len: a", "array_in", "data", None),
            ("h", "char*", "dir: out, len: a", "array_out", None, "data"),
            ("i", "const char*", "dir: in, string: yes, null: ok", "string_in", "text", None),
            ("j", "CUmemLocation", "dir: in", "struct_value", "data", None),
            ("k", "void*", "dir: out, len: 8", "array_out", None, "data"),
            ("l", "CUmemGenericAllocationHandle", "dir: in", "handle", "handle", None),
            ("m", "float", "dir: in", "scalar", "f32", None),
            ("n", "CUlimit", "dir: in", "scalar", "u32", None),
        ]
        params = "\n              ".join(f"{name}: {{{how}}}" for name, _, how, *_ in forms)
        self.declare("cuEverything(" + ", ".join(f"{c_type} {name}" for name, c_type, *_ in forms) + ")")
        self.entry(f"""
            call: cuEverything
            id: 0x0501
            class: blocking
            parks: no
            params:
              {params}
            source: "somewhere"
        """)
        call = self.read().call("cuEverything")
        for param, (name, _, _, kind, request, reply) in zip(call.params, forms):
            self.assertEqual(param.kind, kind, name)
            self.assertEqual(param.request.type if param.request else None, request, name)
            self.assertEqual(param.reply.type if param.reply else None, reply, name)
        self.assertTrue(call.param("i").request.optional)

    def test_a_message_of_its_own(self):
        self.symbols("cuLaunch")
        self.declare("cuLaunch(CUfunction f, void** kernelParams)")
        self.lock("0x0501 cuLaunch")
        self.entry("""
            call: cuLaunch
            id: 0x0501
            class: ordered
            hooks: [client, server]
            params:
              kernelParams: {dir: in, null: ok}
            wire:
            - {name: f, type: handle, kind: function}
            - {name: params, type: data}
            source: "somewhere"
        """)
        call = self.read().call("cuLaunch")
        self.assertTrue(call.custom_wire)
        self.assertEqual(call.request.by_name("f").handle.number, 5)
        self.assertEqual(call.request.by_name("f").param.name, "f")
        self.assertEqual(call.param("kernelParams").kind, "pointer")
        self.assertFalse(call.param("kernelParams").check_null)

    def test_wire_none(self):
        self.symbols("cuMemAlloc")
        self.declare("cuMemAlloc(CUdeviceptr* dptr)")
        self.lock("0x0501 cuMemAlloc")
        self.entry("""
            call: cuMemAlloc
            id: 0x0501
            class: create
            hooks: [client]
            params:
              dptr: {dir: out}
            wire: none
            source: "somewhere"
        """)
        call = self.read().call("cuMemAlloc")
        self.assertFalse(call.travels)
        self.assertTrue(call.params[0].check_null)

    def test_refused_on_the_client_and_not_on_the_software_gpu(self):
        self.symbols("cuMemAllocManaged")
        self.declare("cuMemAllocManaged(CUdeviceptr* dptr)")
        self.lock("0x0501 cuMemAllocManaged")
        self.entry("""
            call: cuMemAllocManaged
            id: 0x0501
            class: unsupported
            reason: "no common address space"
            source: "somewhere"
        """)
        api = self.read()
        self.assertEqual([r.symbol for r in api.client_refused], ["cuProfilerStart", "cuMemAllocManaged"])
        self.assertEqual([r.symbol for r in api.softgpu_refused], ["cuProfilerStart"])
        self.assertEqual([c.name for c in api.areas[0].softgpu], ["cuMemAllocManaged"])


if __name__ == "__main__":
    unittest.main()
