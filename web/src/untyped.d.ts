// What this page uses of packages that come without types.
declare module 'katex/contrib/auto-render' {
  interface Options {
    delimiters: { left: string; right: string; display: boolean }[];
    throwOnError: boolean;
    trust: boolean;
    maxExpand: number;
  }
  export default function renderMathInElement(element: HTMLElement, options: Options): void;
}
