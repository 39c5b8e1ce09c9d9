# cmake -DFROM=text -DTO=header.h -P embed.cmake: a text as a C++ string literal.
file(READ "${FROM}" text)
file(WRITE "${TO}" "#pragma once\n\nconstexpr const char k_generated_ptx[] = R\"PTX(${text})PTX\";\n")
