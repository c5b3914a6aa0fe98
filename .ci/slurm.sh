#!/usr/bin/env bash
# A SLURM of one node on this machine, for the time of a command: .ci/slurm.sh COMMAND...
# Needs root and Debian's slurm-wlm and munge, which it installs where they are missing.
set -euo pipefail
command -v slurmctld >/dev/null && command -v munged >/dev/null || {
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge
} >/dev/null
work=$(mktemp -d)
host=$(hostname -s)
mkdir -p "$work/state" "$work/spool" /run/munge
chown munge: /run/munge
[ -s /etc/munge/munge.key ] || { dd if=/dev/urandom of=/etc/munge/munge.key bs=1024 count=1 2>/dev/null
  chown munge: /etc/munge/munge.key; chmod 400 /etc/munge/munge.key; }
cat >"$work/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiDefault=none
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=main Nodes=$host Default=YES PriorityTier=1 GraceTime=5 MaxTime=INFINITE State=UP
PartitionName=urgent Nodes=$host PriorityTier=2 MaxTime=INFINITE State=UP
CONF
echo "CgroupPlugin=cgroup/v1" >"$work/cgroup.conf" # loaded and not used: no plugin above asks for it
export SLURM_CONF="$work/slurm.conf"
started=()
stop() { # never changes the command's exit code
  set +e
  trap - ERR
  for file in "$work/slurmd.pid" "$work/slurmctld.pid"; do
    [ -s "$file" ] || continue
    pid=$(cat "$file")
    kill "$pid" 2>/dev/null
    for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.2; done # it writes its state
  done
  [ "${#started[@]}" -gt 0 ] && kill "${started[@]}" 2>/dev/null
  rm -rf "$work"
  return 0
}
trap stop EXIT
trap 'tail -n 20 "$work"/slurm*.log' ERR
if ! munge -n >/dev/null 2>&1; then
  runuser -u munge -- munged --foreground & started+=($!)
fi
for _ in $(seq 60); do munge -n >/dev/null 2>&1 && break; sleep 1; done
slurmctld -c -f "$SLURM_CONF"
slurmd -f "$SLURM_CONF" -N "$host"
for _ in $(seq 60); do [ "$(sinfo -h -o %t 2>/dev/null)" = idle ] && break; sleep 1; done
sinfo || { tail -n 20 "$work"/slurm*.log; exit 1; }
status=0
"$@" || status=$?
[ $status -eq 0 ] || tail -n 20 "$work"/slurm*.log
exit $status
