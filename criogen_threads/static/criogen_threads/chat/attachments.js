// Images and files of a message. An image is shown where its bytes stand in the block or its address is of this site:
// one from elsewhere would tell that somebody reads this. Everything else is named.

import { h } from "./dom.js";

const RASTER = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]); // what runs nothing and loads nothing
const INLINE = /^data:([a-z/]+);base64,([a-z0-9+/=]+)$/i;
const LONGEST = 8_000_000; // characters of base64
const LARGEST = 40_000_000; // pixels
const DRAWN = 1_024; // pixels of the longer side

export function attachment(block, texts) {
  const given = Object(block.image ?? block.file);
  const name = typeof given.name === "string" ? given.name : "";
  const label = `${texts.attachment} ${name}`.trim();
  const node = h("p", { class: "quiet" }, label);
  if (!block.image) return node;
  const inline = inlineOf(given);
  if (inline) draw(node, inline, label);
  else if (isOwn(given.url)) load(node, given.url, label);
  return node;
}

/** The bytes that the block has itself, if they are of a kind that is shown. */
function inlineOf({ data, url, media_type: type }) {
  const [, kind, bytes] = typeof data === "string" ? [null, type, data] : INLINE.exec(url) ?? [];
  return RASTER.has(kind) && bytes.length <= LONGEST ? { kind, bytes } : null;
}

function isOwn(url) {
  const address = URL.canParse(url, document.baseURI) ? new URL(url, document.baseURI) : null;
  return address?.origin === location.origin && /^https?:$/.test(address.protocol);
}

/** Onto a canvas: an image with a data: or blob: address is nothing that a strict policy on content lets through. */
async function draw(node, { kind, bytes }, label) {
  try {
    const image = await createImageBitmap(new Blob([Uint8Array.from(atob(bytes), (each) => each.charCodeAt(0))], { type: kind }));
    const { width, height } = image;
    if (width * height <= LARGEST) {
      const scale = Math.min(1, DRAWN / Math.max(width, height));
      const canvas = h("canvas", { class: "picture", role: "img", "aria-label": label });
      [canvas.width, canvas.height] = [width, height].map((each) => Math.max(1, Math.round(each * scale)));
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      node.replaceChildren(canvas);
    }
    image.close();
  } catch {
    // it is no image: its name stays
  }
}

function load(node, url, label) {
  const image = h("img", { class: "picture", alt: label, decoding: "async", referrerpolicy: "same-origin" });
  image.addEventListener("load", () => node.replaceChildren(image));
  image.src = url;
}
