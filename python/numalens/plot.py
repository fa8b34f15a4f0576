"""Heat maps and curves, with matplotlib. Every function draws into `axes`, or into new ones, and returns them."""


def _axes(axes):
    if axes is not None:
        return axes
    from matplotlib import pyplot

    return pyplot.subplots()[1]


def matrix(profile, axes=None):
    """Accesses by the thread's node (rows) and the page's home (columns), in percent of all that went to a home; unpinned threads are the last row."""
    axes = _axes(axes)
    nodes, rows, unpinned = profile.matrix()
    names = [str(node) for node in nodes]
    if any(unpinned):
        rows, labels = [*rows, unpinned], [*names, "unpinned"]
    else:
        labels = names
    total = sum(map(sum, rows)) or 1
    shares = [[cell * 100 / total for cell in row] for row in rows]
    image = axes.imshow(shares, cmap="magma_r", vmin=0)
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_xlabel("page on node")
    axes.set_ylabel("thread on node")
    highest = max(max(row) for row in shares) if shares else 0
    for i, row in enumerate(shares):
        for j, share in enumerate(row):
            axes.text(j, i, f"{share:.1f}", ha="center", va="center", color="white" if share > highest / 2 else "black")
    axes.figure.colorbar(image, ax=axes, label="% of the accesses")
    return axes


def pages(profile, obj=None, bins=64, axes=None):
    """Who uses which part of the memory: accesses by address (columns) and thread (rows), of one object or of everything."""
    axes = _axes(axes)
    where, parameters = "", {}
    if obj is not None:
        where = "where profile = $profile and page between $first and $last"
        last = obj.base + max(obj.size, 1) - 1
        parameters = {"profile": obj.profile, "first": obj.base >> 12, "last": last >> 12}
    cells = profile.rows(f"select thread, page, sum(reads + writes)::hugeint as n from page_accesses {where} group by thread, page", parameters)
    threads = sorted({cell["thread"] for cell in cells})
    # Neighbours in the order of addresses: memory in use is in few places far from each other.
    order = {page: place for place, page in enumerate(sorted({cell["page"] for cell in cells}))}
    width = max(1, min(bins, len(order)))
    grid = [[0] * width for _ in threads]
    for cell in cells:
        grid[threads.index(cell["thread"])][order[cell["page"]] * width // len(order)] += int(cell["n"])
    axes.imshow(grid or [[0]], aspect="auto", cmap="magma_r", vmin=0)
    axes.set_yticks(range(len(threads)), [str(thread) for thread in threads])
    axes.set_xlabel("pages in the order of addresses")
    axes.set_ylabel("thread")
    return axes


def timeline(profile, axes=None):
    """Accesses by class over time."""
    axes = _axes(axes)
    rows = profile.rows("select bin, class::varchar as class, sum(reads + writes)::hugeint as n from site_accesses group by bin, class order by bin")
    width = profile.meta["bin_ns"] / 1e9
    bins = range(max((row["bin"] for row in rows), default=-1) + 1)
    for name in sorted({row["class"] for row in rows}):
        counts = {row["bin"]: int(row["n"]) for row in rows if row["class"] == name}
        axes.step([bin * width for bin in bins], [counts.get(bin, 0) for bin in bins], where="post", label=name)
    axes.set_xlabel("s")
    axes.set_ylabel(profile.meta["unit"])
    if rows:
        axes.legend()
    return axes
