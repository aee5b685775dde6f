/** Charts that can be saved as SVG or PNG. */

import type { ComponentChildren, VNode } from "preact";
import { render } from "preact";
import { useRef } from "preact/hooks";
import { colorOf } from "./drawing";

const PROPERTIES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity",
  "font-family", "font-size", "font-weight", "text-anchor", "display", "transform", "transform-box",
];
const PIXEL_RATIO = 2;

/** A titled figure of an HTML file, with its legend. */
export function Figure({ title, name, legend, children }: { title: string; name: string; legend?: ComponentChildren; children: ComponentChildren }) {
  return (
    <figure class="card">
      <figcaption><b>{title}</b>{legend}</figcaption>
      <Picture name={name}>{children}</Picture>
    </figure>
  );
}

export function Picture({ name, children }: { name: string; children: ComponentChildren }) {
  const place = useRef<HTMLDivElement>(null);
  return (
    <div class="picture" ref={place}>
      {children}
      <SaveButtons name={name} picture={() => place.current!.querySelector("svg")!} />
    </div>
  );
}

export function SaveDrawing({ name, draw }: { name: string; draw: () => VNode }) {
  const place = useRef<HTMLSpanElement>(null);
  const picture = () => {
    render(draw(), place.current!);
    return place.current!.querySelector("svg")!;
  };
  return (
    <>
      <span class="off-screen" aria-hidden="true" ref={place} />
      <SaveButtons name={name} picture={picture} />
    </>
  );
}

function SaveButtons({ name, picture }: { name: string; picture: () => SVGSVGElement }) {
  return (
    <p class="saving examples">
      <span class="muted">Save as</span>
      {["SVG", "PNG"].map((format) => (
        <button type="button" class="chip" aria-label={`Save ${name} as ${format}`} onClick={() => save(picture(), name, format)}>{format}</button>
      ))}
    </p>
  );
}

async function save(picture: SVGSVGElement, name: string, format: string): Promise<void> {
  const { text, width, height } = standalone(picture);
  const drawn = new Blob([text], { type: "image/svg+xml" });
  if (format === "SVG") return download(drawn, `${name}.svg`);
  const address = URL.createObjectURL(drawn);
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width * PIXEL_RATIO, height * PIXEL_RATIO];
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  canvas.toBlob((blob) => blob && download(blob, `${name}.png`), "image/png");
}

/** Copy an SVG with its computed styles, on the background of a card. */
function standalone(picture: SVGSVGElement): { text: string; width: number; height: number } {
  const copy = picture.cloneNode(true) as SVGSVGElement;
  const originals = [picture, ...picture.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    for (const property of PROPERTIES) {
      const value = style.getPropertyValue(property);
      if (value && value !== "none" && value !== "auto") (element as SVGElement).style.setProperty(property, value);
      else if (property === "fill" && value === "none") (element as SVGElement).style.fill = "none";
    }
    element.removeAttribute("class");
  });
  const { x, y, width, height } = picture.viewBox.baseVal;
  const background = document.createElementNS(copy.namespaceURI!, "rect");
  copy.prepend(background);
  const set = (element: Element, values: object) => Object.entries(values).forEach(([key, value]) => element.setAttribute(key, String(value)));
  set(copy, { width, height });
  set(background, { x, y, width, height, fill: colorOf("--card") });
  return { text: new XMLSerializer().serializeToString(copy), width, height };
}

function download(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
