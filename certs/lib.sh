# Shared by the scripts of this folder. Everything is done by openssl(1); keys are P-256 and readable by their owner only.
set -euo pipefail
umask 077

CA_DAYS=3650
LEAF_DAYS=397
RENEW_SECONDS=$((30 * 24 * 3600)) # a certificate that ends sooner is made anew

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}
note() { echo "  $*"; }

command -v openssl >/dev/null || die "openssl is missing: apt-get install openssl"

# quietly COMMAND…: what openssl says matters only when it fails.
quietly() {
    local said
    said=$("$@" 2>&1) || die "'$*' failed:"$'\n'"$said"
}

new_key() { # FILE
    quietly openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"
}

# A certificate authority in DIR: ca.crt and ca.key. Kept if it is there.
make_ca() { # DIR NAME
    local dir=$1 name=$2
    mkdir -p "$dir"
    if [ -s "$dir/ca.crt" ] && [ -s "$dir/ca.key" ]; then
        openssl x509 -in "$dir/ca.crt" -noout -checkend 0 >/dev/null || die "$dir/ca.crt has expired; move the folder away and start again"
        note "kept  $dir/ca.crt  ($(subject_of "$dir/ca.crt"))"
        return
    fi
    [ ! -s "$dir/ca.crt" ] || die "$dir/ca.crt is there, but its key is not: this folder cannot sign"
    new_key "$dir/ca.key.new"
    quietly openssl req -x509 -new -key "$dir/ca.key.new" -sha256 -days "$CA_DAYS" -subj "/O=Warpline/CN=$name" \
        -addext "basicConstraints=critical,CA:TRUE,pathlen:0" -addext "keyUsage=critical,keyCertSign,cRLSign" \
        -addext "subjectKeyIdentifier=hash" -out "$dir/ca.crt.new"
    mv "$dir/ca.key.new" "$dir/ca.key"
    mv "$dir/ca.crt.new" "$dir/ca.crt"
    note "made  $dir/ca.crt  ($name; valid for $CA_DAYS days)"
    note "made  $dir/ca.key  (whoever has it can let anybody in: keep it off the servers)"
}

subject_of() { openssl x509 -in "$1" -noout -subject -nameopt RFC2253 | sed 's/^subject=//'; } # CERTIFICATE

# The alternative names of a certificate as they are written in a request.
names_of() { # CERTIFICATE
    openssl x509 -in "$1" -noout -ext subjectAltName 2>/dev/null | sed '1d' | tr ',' '\n' | sed 's/^ *//; s/IP Address:/IP:/'
}

is_current() { # CA-DIR CERTIFICATE KEY PURPOSE COMMON-NAME NAMES
    local dir=$1 crt=$2 key=$3 purpose=$4 cn=$5 names=$6
    [ -s "$crt" ] && [ -s "$key" ] || return 1
    openssl x509 -in "$crt" -noout -checkend "$RENEW_SECONDS" >/dev/null || return 1
    openssl verify -CAfile "$dir/ca.crt" -purpose "$purpose" "$crt" >/dev/null 2>&1 || return 1
    [ "$(subject_of "$crt")" = "CN=$cn,O=Warpline" ] || return 1
    [ "$(openssl pkey -in "$key" -pubout)" = "$(openssl x509 -in "$crt" -noout -pubkey)" ] || return 1
    [ "$(names_of "$crt" | normal_names)" = "$(tr ',' '\n' <<<"$names" | normal_names)" ]
}

# openssl prints IPv6 addresses in full: fe80::1 as FE80:0:0:0:0:0:0:1.
full_ipv6() { # ADDRESS
    local left=${1%%::*} right="" groups tail=() zeros
    IFS=: read -ra groups <<<"$left"
    if [[ $1 == *::* ]]; then
        right=${1#*::}
        IFS=: read -ra tail <<<"$right"
        for ((zeros = 8 - ${#groups[@]} - ${#tail[@]}; zeros > 0; zeros--)); do groups+=(0); done
        groups+=(${tail[@]+"${tail[@]}"})
    fi
    local group full=""
    for group in "${groups[@]}"; do full+=$(printf ':%X' "0x$group"); done
    echo "${full#:}"
}
normal_names() {
    local name
    while read -r name; do
        [[ $name != IP:*:* ]] || name="IP:$(full_ipv6 "${name#IP:}")"
        [ -z "$name" ] || echo "$name"
    done | sort -u
}

# A certificate signed by the CA of DIR; kept if the one that is there will do.
issue() { # CA-DIR CERTIFICATE KEY server|client COMMON-NAME NAMES
    local dir=$1 crt=$2 key=$3 role=$4 cn=$5 names=$6
    [ -s "$dir/ca.key" ] || die "no certificate authority in $dir: run make-ca $dir"
    # A certificate whose subject is its issuer's passes for self-signed, and nobody accepts it.
    [ "$(subject_of "$dir/ca.crt")" != "CN=$cn,O=Warpline" ] || die "'$cn' is the certificate authority's own name: choose another"
    if is_current "$dir" "$crt" "$key" "ssl$role" "$cn" "$names"; then
        note "kept  $crt  ($cn)"
        return
    fi
    local usage=serverAuth
    [ "$role" = server ] || usage=clientAuth
    new_key "$key.new"
    quietly openssl req -new -key "$key.new" -subj "/O=Warpline/CN=$cn" -out "$crt.request"
    {
        echo "basicConstraints=critical,CA:FALSE"
        echo "keyUsage=critical,digitalSignature"
        echo "extendedKeyUsage=$usage"
        echo "subjectKeyIdentifier=hash"
        echo "authorityKeyIdentifier=keyid"
        [ -z "$names" ] || echo "subjectAltName=$names"
    } >"$crt.extensions"
    # A random serial number of 127 bits: no counter file to keep, and none to lose.
    quietly openssl x509 -req -in "$crt.request" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -sha256 -days "$LEAF_DAYS" \
        -set_serial "0x0$(openssl rand -hex 16 | cut -c2-)" -extfile "$crt.extensions" -out "$crt.new"
    quietly openssl verify -CAfile "$dir/ca.crt" -purpose "ssl$role" "$crt.new"
    rm -f "$crt.request" "$crt.extensions"
    mv "$key.new" "$key"
    mv "$crt.new" "$crt"
    note "made  $crt  ($cn${names:+; $names}; valid for $LEAF_DAYS days)"
}

# The names and addresses of a server as openssl wants them: "DNS:gpu1,IP:10.0.0.1".
alternative_names() { # NAME…
    local name list=""
    for name in "$@"; do
        [[ $name =~ ^[A-Za-z0-9.:*_-]+$ ]] || die "'$name' is neither a host name nor an address"
        if [[ $name == *:* || $name =~ ^[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+$ ]]; then
            list+=",IP:$name"
        else
            list+=",DNS:$name"
        fi
    done
    echo "${list#,}"
}

# common_name TEXT: X.509 allows 64 characters.
common_name() {
    [[ $1 =~ ^[A-Za-z0-9._-]{1,64}$ ]] || die "'$1': a tenant's name has 1 to 64 letters, digits, dots, dashes and underscores"
    echo "$1"
}

default_dir() { echo "${WARPLINE_CA_DIR:-$HOME/.config/warpline/ca}"; }

# Takes --dir DIR off the front of the arguments: sets DIR and REST.
take_dir() {
    DIR=$(default_dir)
    if [ "${1:-}" = --dir ]; then
        [ $# -ge 2 ] || die "--dir wants a folder"
        DIR=$2
        shift 2
    fi
    REST=("$@")
}
