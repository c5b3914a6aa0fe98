// Small pieces of the panel: sliders, chips, tabs, keyboard.

// Return a new element with properties and children.
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

// Return a labelled slider; `onInput(value)` is told of every change by the user.
export function slider(name, { low, high, step, value, title }, onInput) {
  const input = make("input", { type: "range", min: low, max: high, step, value });
  const output = make("output", {}, (+value).toFixed(2));
  const label = make("label", { className: "slider", title: title ?? name },
    make("span", {}, name), input, output);
  input.setAttribute("aria-label", name);
  const show = () => { output.textContent = (+input.value).toFixed(2); };
  input.addEventListener("input", () => { show(); onInput(+input.value); });
  label.set = (x) => { input.value = x; show(); };
  label.get = () => +input.value;
  return label;
}

// Return a button that shows whether it is the chosen one.
export function chip(label, title, onClick) {
  const button = make("button", { type: "button", title }, label);
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => onClick(button));
  return button;
}

// Mark one of all buttons inside of an element as the chosen one.
export function press(parent, chosen) {
  for (const button of parent.querySelectorAll("[aria-pressed]")) {
    button.setAttribute("aria-pressed", String(button === chosen));
  }
}

// Make tabs work by click and by arrow keys; `onChange(name)` is told.
export function makeTabs(list, onChange) {
  const tabs = [...list.querySelectorAll("[role=tab]")];
  const choose = (tab, isFocused) => {
    for (const each of tabs) {
      const isChosen = each === tab;
      each.setAttribute("aria-selected", String(isChosen));
      each.tabIndex = isChosen ? 0 : -1;
      document.getElementById(each.getAttribute("aria-controls")).hidden = !isChosen;
    }
    if (isFocused) tab.focus();
    onChange(tab.id.replace("tab-", ""));
  };
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => choose(tab, false));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      choose(tabs[(i + step + tabs.length) % tabs.length], true);
    });
  });
  return (name) => choose(document.getElementById(`tab-${name}`), false);
}
