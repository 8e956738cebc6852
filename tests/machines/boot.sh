#!/usr/bin/env bash
# Makes a machine of the namespaces that it runs in: boot.sh NAME [FOLDER…], with its user's TOKEN.
# Under /tmp lie the tests' folders and maybe the checkout: those come back at their own place.
set -e
hostname "$1"
mount -t tmpfs none /dev/shm
mount -t tmpfs none /mnt
echo "127.0.0.1 localhost" > /mnt/hosts
for n in 1 2 3 4 5 6 7 8 9; do echo "10.77.0.$n machine$n" >> /mnt/hosts; done
mount --bind /mnt/hosts /etc/hosts
sed 's|:/root:|:/tmp/home:|' /etc/passwd > /mnt/passwd
mount --bind /mnt/passwd /etc/passwd
mount -t tmpfs none /run
shift
for folder; do n=$((n + 1)); mkdir "/mnt/$n"; mount --bind "$folder" "/mnt/$n"; done
mount -t tmpfs none /tmp
n=9
for folder; do n=$((n + 1)); mkdir -p "$folder"; mount --bind "/mnt/$n" "$folder"; done
mkdir /tmp/home
(umask 077; mkdir /tmp/home/.ray; printf %s "$TOKEN" > /tmp/home/.ray/auth_token)
echo up
while :; do sleep 1000 & wait; done
