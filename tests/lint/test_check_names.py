#!/usr/bin/env python3
"""What check_names.py finds and what it leaves alone, on sources of a few lines."""

import pathlib
import tempfile
import unittest

import check_names

BREACHES = [
    ("constexpr int k_a = 1;", "constexpr long k_a{2};"),
    ("const int k_a = 1 << 2, k_b = 3;", "int k_b;"),
    ("struct A { int a; };", "class A final : public B { void f(); };"),
    ("enum class A : int { a };", "void A() {}"),
    ("using A = int;", "using A = long;"),
    ("template <typename T>\nvoid f(const T& a, int b = 2) { if (a) { b(); } }", "void f(const T& other, int count);"),
    ("}\nTEST(S, n) {}\nnamespace {", "}\nTEST_F(S, n) { a(); }\nnamespace {"),
    ("int table[] = {1, 2};", 'const char* const table[2][1] = {"{", "}"};'),
]
ALLOWED = [
    ("void f(int a) {}", "void f(long a) {}"),
    ("using Clock = std::chrono::steady_clock;", "using  Clock = std::chrono::steady_clock;"),
    ("namespace image = cuda::image;", "namespace image = cuda::image;"),
    ("struct A { int same; void f(); }; bool A::next() { return true; }", "struct B { int same; void f(); }; bool B::next() { return true; }"),
    ("struct A;", "struct A;"),
    ("void f() { int same = 1; }", "void g() { int same = 1; }"),
    ("}\nint same() { return 1; }\nnamespace {", "int same() { return 1; }"),
    ("// int same;\n#define X int same;\nint a;", 'const char* b = R"(int same;)";'),
]


class CheckNamesTest(unittest.TestCase):
    def breaches(self, *sources):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            unity = build / "room/CMakeFiles/toy.dir/Unity/unity_0_cxx.cxx"
            unity.parent.mkdir(parents=True)
            for number, source in enumerate(sources):
                (build / f"{number}.cpp").write_text(f"#include <a>\nnamespace a::b {{\nnamespace {{\n{source}\n}}\n}}\n")
            unity.write_text("".join(f'#include "{build}/{number}.cpp"\n' for number in range(len(sources))))
            return [b for target, files in check_names.targets(build).items() for b in check_names.breaches_of(target, files)]

    def test_equal_names_are_found(self):
        for pair in BREACHES:
            with self.subTest(pair):
                self.assertEqual(len(self.breaches(*pair)), 1, self.breaches(*pair))

    def test_what_compiles_is_left_alone(self):
        for pair in ALLOWED:
            with self.subTest(pair):
                self.assertEqual(self.breaches(*pair), [])


if __name__ == "__main__":
    unittest.main()
