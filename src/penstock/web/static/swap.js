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

  const sameShell = (old, next) =>
    old.nodeType === 1 && next.nodeType === 1 && old.tagName === next.tagName && old.id === next.id;

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
    if (!sameShell(old, next)) {
      if (old.nodeType === 3 && next.nodeType === 3) old.data = next.data;
      else old.replaceWith(next);
      return;
    }
    copyAttributes(old, next);
    mergeChildren(old, next);
  };

  const mergeChildren = (old, next) => {
    const before = [...old.childNodes];
    const after = [...next.childNodes];
    after.forEach((each, at) => {
      if (at < before.length) merge(before[at], each);
      else old.append(each);
    });
    before.slice(after.length).forEach((each) => each.remove());
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
