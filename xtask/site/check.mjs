// Opens every page and picture of the site in a browser, wide and narrow, light and dark, and prints what is wrong:
// node check.mjs FOLDER
import chromium from '@sparticuz/chromium';
import { readdirSync, existsSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import puppeteer from 'puppeteer-core';

const folder = resolve(process.argv[2]);
const files = (ending) => readdirSync(folder, { recursive: true }).filter((file) => file.endsWith(ending)).sort();
const pages = files('.html').filter((file) => !['toc.html', '404.html'].includes(file));
const isSource = (page) => !/^(docs\/|[A-Z]+\.html|index\.html)/.test(page);
// Widths, and the themes of mdBook at each; sources are looked at in the first only.
const LOOKS = [[380, ['navy', 'light', 'rust']], [1280, ['light', 'navy', 'coal', 'ayu']]];
const CONTRAST = 4.5;

// In the page: everything that can be measured there. The functions of `tools` are defined first.
const tools = () => {
  const parsed = (colour) => {
    const numbers = (colour.match(/[\d.]+/g) ?? []).map(Number);
    const scale = colour.startsWith('color(') ? 255 : 1;
    return numbers.length < 3 ? [0, 0, 0, 0] : [...numbers.slice(0, 3).map((n) => n * scale), numbers[3] ?? 1];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const luminance = (colour) => {
    const [r, g, b] = colour.map((n) => (n / 255 <= 0.03928 ? n / 255 / 12.92 : ((n / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (text, below) => {
    const [low, high] = [luminance(over(text, below)), luminance(below)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  window.poor = {
    // Words of the page on what their ancestors paint.
    page: (least, root) => {
      const found = new Set();
      const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const parent = node.parentElement;
        if (!node.data.trim() || !parent.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
        const layers = [];
        for (let at = parent; at; at = at.parentElement) layers.unshift(parsed(getComputedStyle(at).backgroundColor));
        const below = layers.reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
        const ratio = contrast(parsed(getComputedStyle(parent).color), below);
        if (ratio < least) found.add(`${parent.tagName}.${parent.className}: contrast ${ratio.toFixed(1)}`);
      }
      return [...found];
    },
    // Words of a picture on the last shape painted before them at their middle, and words beyond its edge.
    picture: (least) => {
      const found = new Set();
      const shapes = [...document.querySelectorAll('rect, circle, path, polygon')].map((it) => [it, it.getBoundingClientRect()]);
      const whole = document.documentElement.getBoundingClientRect();
      for (const text of document.querySelectorAll('text')) {
        const box = text.getBoundingClientRect();
        const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
        const isBelow = ([it, r]) => text.compareDocumentPosition(it) & Node.DOCUMENT_POSITION_PRECEDING
          && r.left <= x && x <= r.right && r.top <= y && y <= r.bottom && getComputedStyle(it).fill !== 'none';
        const below = shapes.filter(isBelow).reduce((below, [it]) => over(parsed(getComputedStyle(it).fill), below), [255, 255, 255, 1]);
        const ratio = contrast(parsed(getComputedStyle(text).fill), below);
        const words = text.textContent.trim();
        if (!words) continue;
        if (ratio < least) found.add(`"${words}": contrast ${ratio.toFixed(1)}`);
        if (box.left < whole.left - 1 || box.right > whole.right + 1) found.add(`"${words}" is cut off`);
      }
      return [...found];
    },
  };
};

const browser = await puppeteer.launch({ args: chromium.args, executablePath: await chromium.executablePath(), headless: 'shell' });
const problems = new Set();
const [ids, links] = [new Map(), []];
let current = '';
const tab = await browser.newPage();
tab.on('pageerror', (error) => problems.add(`${current}: ${error.message}`));
tab.on('console', (message) => message.type() === 'error' && problems.add(`${current}: ${message.text()}`));
tab.on('request', (request) => /^https?:/.test(request.url()) && problems.add(`${current}: loads ${request.url()}`));
await tab.evaluateOnNewDocument(tools);

for (const page of pages) {
  current = page;
  for (const [width, themes] of isSource(page) ? LOOKS.slice(0, 1) : LOOKS) {
    await tab.setViewport({ width, height: 900 });
    await tab.goto(pathToFileURL(join(folder, page)).href);
    const found = await tab.evaluate((least, themes, isFirst) => {
      const wide = ['html', 'main', '.content', '.page'].filter((name) => {
        const it = document.querySelector(name);
        return it && it.scrollWidth > it.clientWidth + 1;
      });
      const poor = themes.flatMap((theme) => {
        document.querySelector(`#mdbook-theme-${theme}`).click();
        document.getAnimations().forEach((it) => it.finish());
        return window.poor.page(least, isFirst ? document.body : document.querySelector('main')).map((what) => `${theme}: ${what}`);
      });
      return [...poor, ...wide.map((name) => `${name} scrolls sideways`)];
    }, CONTRAST, themes, page === 'index.html');
    found.forEach((what) => problems.add(`${page}, ${width}: ${what}`));
  }
  const there = await tab.evaluate(() => ({
    ids: [...document.querySelectorAll('[id]')].map((it) => it.id),
    links: [...document.querySelectorAll('main a[href]')].map((it) => it.href),
    pictures: [...document.querySelectorAll('main img')].map((it) => [it.src, it.alt.trim() !== '' && it.complete && it.naturalWidth > 0]),
  }));
  ids.set(page, new Set(there.ids));
  links.push(...there.links.map((link) => [page, link]));
  there.pictures.filter(([, isGood]) => !isGood).forEach(([src]) => problems.add(`${page}: ${src} is missing, or has no text alternative`));
}
for (const [page, link] of links.filter(([, link]) => link.startsWith('file:'))) {
  const [path, anchor] = link.split('#');
  const file = relative(folder, fileURLToPath(path));
  const isThere = existsSync(join(folder, file)) && (!anchor || ids.get(file)?.has(decodeURIComponent(anchor)));
  if (!isThere || file.startsWith('..')) problems.add(`${page}: ${file}${anchor ? `#${anchor}` : ''} is not there`);
}
const pictures = files('.svg').filter((file) => file.startsWith('docs/'));
for (const picture of pictures) {
  current = picture;
  await tab.goto(pathToFileURL(join(folder, picture)).href);
  for (const theme of ['light', 'dark']) {
    await tab.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: theme }]);
    (await tab.evaluate((least) => window.poor.picture(least), CONTRAST)).forEach((what) => problems.add(`${picture}, ${theme}: ${what}`));
  }
}
current = 'search';
await tab.goto(pathToFileURL(join(folder, 'index.html')).href + '?search=coalescing');
await tab.waitForSelector('#mdbook-searchresults li', { timeout: 10000 }).catch(() => problems.add('the search finds no "coalescing"'));
await browser.close();
problems.forEach((problem) => console.log(problem));
console.log(`${pages.length} pages, ${pictures.length} pictures, ${links.length} links: ${problems.size} problems`);
process.exitCode = problems.size > 0 ? 1 : 0;
