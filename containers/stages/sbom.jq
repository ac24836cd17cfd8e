# An image's list of contents from plain lists: CycloneDX 1.6, https://cyclonedx.org/docs/1.6/json/
#   $stack   the image's name
#   $debian  lines of package, version and architecture
#   $spack   lines of package, version and hash
#   $files   lines of `sha256sum`
def rows($separator): split("\n") | map(select(. != "") | split($separator));
def library($url): {type: "library", name: .[0], version: .[1], purl: $url};
{
  bomFormat: "CycloneDX",
  specVersion: "1.6",
  version: 1,
  metadata: {component: {type: "container", name: "nearmetal-\($stack)"}},
  components: (
    ($debian | rows(" ") | map(library(@uri "pkg:deb/debian/\(.[0])@\(.[1])?arch=\(.[2])")))
    + ($spack | rows(" ") | map(library("pkg:generic/\(.[0])@\(.[1])?spack_hash=\(.[2])")))
    + ($files | rows("  ") | map({type: "file", name: .[1], hashes: [{alg: "SHA-256", content: .[0]}]}))
  )
}
