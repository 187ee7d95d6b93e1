// The part of Node's "path" that @jupyterlab/coreutils uses, for paths with slashes.
function normalize(path: string): string {
  const out: string[] = [];
  for (const part of path.split('/')) {
    if (part === '..' && out.length && out[out.length - 1] !== '..') out.pop();
    else if (part && part !== '.') out.push(part);
  }
  return (path.startsWith('/') ? '/' : '') + out.join('/') || '.';
}
const join = (...parts: string[]): string => normalize(parts.filter(p => p).join('/'));
const basename = (path: string, ext = ''): string => {
  const name = path.slice(path.lastIndexOf('/') + 1);
  return ext && name.endsWith(ext) ? name.slice(0, -ext.length) : name;
};
const dirname = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/'))) || '.';
const extname = (path: string): string => /[^/.](\.[^/.]*)$/.exec(path)?.[1] ?? '';
const posix = { normalize, join, basename, dirname, extname, resolve: join, relative: (_from: string, to: string): string => to };
export { normalize, join, basename, dirname, extname, posix };
export default posix;
