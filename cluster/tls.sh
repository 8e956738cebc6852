#!/usr/bin/env bash
# Certificates with which the machines of a cluster encrypt Ray's connections and know each other.
#
#   tls.sh authority FOLDER          once, on your laptop: ca.crt and ca.key
#   tls.sh machine FOLDER [ADDRESS…] on each machine that has these two: ray.crt and ray.key for
#                                    its addresses; default: all that `hostname -I` lists
#
# Whoever has ca.key can join the cluster, so keep it like the token.
set -euo pipefail
umask 077
role="$1" folder="$2"
shift 2
cd "$folder"
case "$role" in
authority)
    openssl req -x509 -newkey rsa:3072 -nodes -days 365 -subj "/CN=sclsearch cluster" \
        -keyout ca.key -out ca.crt 2> /dev/null
    ;;
machine)
    if (($# == 0)); then
        read -ra addresses <<< "$(hostname -I)"
        set -- "${addresses[@]}"
    fi
    # Ray compares the address that it connects to with those of the certificate.
    names="DNS:localhost,IP:127.0.0.1$(printf ',IP:%s' "$@")"
    openssl req -newkey rsa:3072 -nodes -subj "/CN=sclsearch machine" -keyout ray.key 2> /dev/null \
        | openssl x509 -req -days 365 -CA ca.crt -CAkey ca.key -set_serial "0x$(openssl rand -hex 16)" \
            -extfile <(echo "subjectAltName=$names") -out ray.crt 2> /dev/null
    ;;
*)
    echo "tls.sh: $role: must be authority or machine." >&2
    exit 2
    ;;
esac
