<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="html"/>
  <xsl:template match="/">
    <html>
      <xsl:for-each select="catalogue/book">
        <xsl:sort select="author"/>
        <p><xsl:value-of select="title"/>: <xsl:value-of select="concat(price, ' ', @lang)"/></p>
      </xsl:for-each>
    </html>
  </xsl:template>
</xsl:stylesheet>
