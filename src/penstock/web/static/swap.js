// Put what is new into the page, and leave the rest, with its focus and selection, as it is.
(() => {
  const main = document.getElementById("main");
  const live = document.getElementById("live");
  if (!main || !live || !window.EventSource) return;

  const say = (state, text) => {
    if (live.dataset.state === state) return;
    live.dataset.state = state;
    live.textContent = text;
  };

  // A row is that of its link, so that focus stays with a table where others come before it.
  const keyOf = (node) =>
    node.id || (node.tagName === "TR" && node.querySelector("a")?.getAttribute("href")) || "";

  const isSame = (old, next) =>
    old.nodeName === next.nodeName && (old.nodeType !== 1 || keyOf(old) === keyOf(next));

  const copyAttributes = (old, next) => {
    for (const { name } of [...old.attributes]) {
      if (!next.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of next.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  };

  const merge = (old, next) => {
    if (old.isEqualNode(next)) return;
    if (old.nodeType === 1) {
      copyAttributes(old, next);
      mergeChildren(old, next);
    } else {
      old.nodeValue = next.nodeValue;
    }
  };

  const mergeChildren = (parent, source) => {
    const left = [...parent.childNodes];
    for (const next of [...source.childNodes]) {
      const at = left.findIndex((old) => isSame(old, next));
      if (at < 0) {
        parent.insertBefore(next, left[0] ?? null);
      } else {
        left.splice(0, at).forEach((old) => old.remove());
        merge(left.shift(), next);
      }
    }
    left.forEach((old) => old.remove());
  };

  const source = new EventSource(main.dataset.live);
  source.onopen = () => say("live", "live");
  source.onerror = () => say("lost", "not live");
  source.onmessage = (event) => {
    const next = document.createElement("template");
    next.innerHTML = JSON.parse(event.data);
    mergeChildren(main, next.content);
    say("live", "live");
  };
})();
