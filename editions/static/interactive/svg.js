// What the interactive figures have in common: elements, and the way from a value to a place.

function svgElement(name, attributes, parent) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.append(element);
  return element;
}

function htmlElement(name, attributes, parent) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.append(element);
  return element;
}

// A linear map from [low, high] to [start, end], with its inverse.
function axis(low, high, start, end) {
  const factor = (end - start) / (high - low);
  const map = (value) => start + (value - low) * factor;
  map.inverse = (place) => low + (place - start) / factor;
  return map;
}

function listItem(text) {
  const item = document.createElement("li");
  item.textContent = text;
  return item;
}

function numbers(text) {
  return text.split(",").map(Number);
}

// A minus sign, not a hyphen.
function written(value, digits = 2) {
  const text = Math.abs(value).toFixed(digits);
  return value < 0 && Number(text) !== 0 ? `\u2212${text}` : text;
}
