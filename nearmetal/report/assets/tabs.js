"use strict";
// Pages as tabs, by click, arrow keys and the address's #hash; and the tooltip with value,
// interval, repeats and session.

const show = {};  // page -> function that draws it, called whenever it opens

function pageTabs() {
  const tabs = [...document.querySelectorAll("#tabs a")];
  const list = document.getElementById("tabs");
  list.setAttribute("role", "tablist");
  const pages = tabs.map(tab => document.querySelector(tab.getAttribute("href")));
  tabs.forEach((tab, i) => {
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", pages[i].id);
    pages[i].setAttribute("role", "tabpanel");
  });
  function open() {
    const [name, detail] = location.hash.slice(1).split("/");
    const chosen = Math.max(0, pages.findIndex(page => page.id === name));
    tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", i === chosen);
      tab.tabIndex = i === chosen ? 0 : -1;
      pages[i].classList.toggle("open", i === chosen);
    });
    if (show[pages[chosen].id]) show[pages[chosen].id](detail);
    return pages[chosen];
  }
  list.addEventListener("keydown", event => {
    const here = tabs.indexOf(document.activeElement);
    const to = {
      ArrowRight: here + 1,
      ArrowLeft: here - 1 + tabs.length,
      Home: 0,
      End: tabs.length - 1
    }[event.key];
    if (to === undefined || here < 0) return;
    event.preventDefault();
    const tab = tabs[to % tabs.length];
    tab.focus();
    tab.click();
  });
  tabs.forEach(tab => tab.addEventListener("click", event => {
    event.preventDefault();
    if (location.hash !== tab.hash) history.pushState(null, "", tab.hash);
    open();
  }));
  addEventListener("popstate", open);
  addEventListener("hashchange", () => {
    const page = open();
    if (location.hash.includes("/")) page.scrollIntoView();
  });
  document.documentElement.classList.add("scripted");
  open();
}

function tips() {
  const tip = document.getElementById("tip");
  function place(target) {
    tip.textContent = target.dataset.tip;
    tip.hidden = false;
    const box = target.getBoundingClientRect();
    const below = box.bottom + tip.offsetHeight + 8 < innerHeight;
    tip.style.left = Math.max(8, Math.min(box.left, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = (below ? box.bottom + 4 : box.top - tip.offsetHeight - 4) + "px";
  }
  const hide = () => {
    tip.hidden = true;
  };
  for (const kind of ["mouseover", "focusin", "click"]) {
    document.addEventListener(kind, event => {
      const target = event.target.closest && event.target.closest("[data-tip]");
      if (target) place(target);
      else hide();
    });
  }
  for (const kind of ["focusout", "scroll"])
    addEventListener(kind, hide, { passive: true, capture: true });
  addEventListener("keydown", event => {
    if (event.key === "Escape") hide();
  });
}
