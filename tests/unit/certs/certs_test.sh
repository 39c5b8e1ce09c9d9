#!/usr/bin/env bash
# Holds what the scripts of certs/ make against openssl verify. Usage: certs_test.sh CERTS-FOLDER
set -euo pipefail
certs=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

check() { # TEXT COMMAND…: the command must succeed
    local text=$1
    shift
    if "$@" >"$work/said" 2>&1; then
        echo "ok      $text"
    else
        echo "FAILED  $text"
        sed 's/^/        /' "$work/said"
        failures=$((failures + 1))
    fi
}
refused() { # TEXT COMMAND…: the command must fail
    local text=$1
    shift
    check "$text" bash -c '! "$@"' _ "$@"
}
verify() { # PURPOSE CERTIFICATE MORE…
    local purpose=$1 crt=$2
    shift 2
    openssl verify -x509_strict -CAfile "$work/dev/ca.crt" -purpose "$purpose" "$@" "$crt"
}
says() { # CERTIFICATE TEXT
    openssl x509 -in "$1" -noout -text | grep -q -- "$2"
}
export -f verify says
export work

check "certs/dev makes everything" "$certs/dev" "$work/dev"
for name in localhost "$(hostname)"; do check "the server is $name" verify sslserver "$work/dev/server.crt" -verify_hostname "$name"; done
for address in 127.0.0.1 ::1; do check "the server is $address" verify sslserver "$work/dev/server.crt" -verify_ip "$address"; done
check "verify works in the shell that refusals are tried in" bash -c '"$@"' _ verify sslserver "$work/dev/server.crt"
refused "the server is no other host" verify sslserver "$work/dev/server.crt" -verify_hostname example.org
check "the tenant may dial" verify sslclient "$work/dev/tenant.crt"
refused "a server's certificate is no tenant's" verify sslclient "$work/dev/server.crt"
refused "a tenant's certificate is no server's" verify sslserver "$work/dev/tenant.crt"
check "the tenant is called developer" bash -c 'openssl x509 -in "$work/dev/tenant.crt" -noout -subject | grep -q "CN = developer$"'
for name in ca server tenant; do
    check "$name: P-256" says "$work/dev/$name.crt" "NIST CURVE: P-256"
    check "$name: the key is the owner's only" test "$(stat -c %a "$work/dev/$name.key")" = 600
done
check "the authority signs certificates and nothing else" says "$work/dev/ca.crt" "Certificate Sign, CRL Sign"
check "no authority below it" says "$work/dev/ca.crt" "CA:TRUE, pathlen:0"
check "the server's is no authority" says "$work/dev/server.crt" "CA:FALSE"

sums() { (cd "$work/dev" && find . -type f -exec sha256sum {} + | sort); }
before=$(sums)
check "certs/dev again" "$certs/dev" "$work/dev"
check "… keeps what is good" test "$before" = "$(sums)"

check "another server" "$certs/enrol-server" --dir "$work/dev" gpu1.example.org 10.0.0.7 fe80::7
check "… by name" verify sslserver "$work/dev/servers/gpu1.example.org/server.crt" -verify_hostname gpu1.example.org
check "… by address" verify sslserver "$work/dev/servers/gpu1.example.org/server.crt" -verify_ip fe80::7
before=$(sums)
check "… again" "$certs/enrol-server" --dir "$work/dev" gpu1.example.org 10.0.0.7 fe80::7
check "… is kept" test "$before" = "$(sums)"
check "… with another address" "$certs/enrol-server" --dir "$work/dev" gpu1.example.org 10.0.0.8
check "… is made anew" verify sslserver "$work/dev/servers/gpu1.example.org/server.crt" -verify_ip 10.0.0.8
check "a tenant" "$certs/enrol-tenant" --dir "$work/dev" alice
check "… may dial" verify sslclient "$work/dev/tenants/alice/tenant.crt"
refused "a tenant's name is checked" "$certs/enrol-tenant" --dir "$work/dev" "a/CN=root"
refused "a server's name is checked" "$certs/enrol-server" --dir "$work/dev" 'a,DNS:b'
name=$(openssl x509 -in "$work/dev/ca.crt" -noout -subject -nameopt RFC2253 | sed "s/^subject=CN=//; s/,O=Warpline$//")
refused "a tenant with the authority's own name" "$certs/enrol-tenant" --dir "$work/dev" "$name"
check "another authority" "$certs/make-ca" "$work/other"
check "… signs its tenants" "$certs/enrol-tenant" --dir "$work/other" mallory
refused "… who are strangers here" verify sslclient "$work/other/tenants/mallory/tenant.crt"
refused "no authority, no certificate" "$certs/enrol-tenant" --dir "$work/nowhere" bob
rm "$work/other/ca.key"
refused "an authority without its key does not sign" "$certs/make-ca" "$work/other"

[ "$failures" -eq 0 ] || { echo "$failures failed"; exit 1; }
