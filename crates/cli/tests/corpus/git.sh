# git: history, branches, a merge with a conflict, packing, cloning, checking.
export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e
export GIT_AUTHOR_DATE='2000-01-01T00:00:00Z' GIT_COMMITTER_DATE='2000-01-01T00:00:00Z' GIT_CONFIG_GLOBAL=/dev/null HOME="$PWD"
git init -q -b main r && cd r || exit
i=0
while [ $i -lt 20 ]; do
    seq 1 $((i * 50)) > "f$((i % 5))"
    git add -A && git commit -q -m "commit $i"
    i=$((i + 1))
done
git checkout -q -b other HEAD~5 && echo x > f0 && git commit -q -a -m other
git checkout -q main && git merge other >/dev/null; echo "$?"
git status --short; git checkout -q --ours f0 && git add f0 && git commit -q -m merged
git gc -q && git fsck --strict 2>&1; git log --format='%h %s' | md5sum
git clone -q . ../clone && git -C ../clone rev-parse HEAD && git diff --stat HEAD~3 | tail -n 1; git grep -c 99 | sort | head -n 3
